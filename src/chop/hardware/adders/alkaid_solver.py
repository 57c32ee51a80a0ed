"""Adder graphs from the solver of alkaid (LGPL, an optional dependency that is used unmodified)."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from chop.hardware.adders.adder_graph import AdderGraph, AdderOutput, GraphBuilder, Range
from chop.hardware.program.signal import IntArray

INPUT, ADD, SUBTRACT = -1, 0, 1
"""The opcodes of alkaid that a solution may contain."""
Place = tuple[int, int, bool] | None
"""A value of the graph, its shift (which may be negative) and whether it is negated; None: always 0."""


def is_installed() -> bool:
    """Whether alkaid can be imported."""
    return find_spec("alkaid") is not None


def solver_version() -> str:
    """Return the version of alkaid."""
    return version("alkaid")


def solve_alkaid(matrix: IntArray, ranges: list[Range]) -> AdderGraph:
    """Return adders for a matrix [outputs, inputs] with few bits of adders, shared between outputs."""
    from alkaid.cmvm import cmvm_solve  # takes half a second, and is optional

    intervals = [(float(low), float(high), 1.0) for low, high in ranges]
    solutions = cmvm_solve(np.ascontiguousarray(matrix.T, dtype=np.float32), qintervals=intervals)
    builder = GraphBuilder(matrix.shape[1])
    places: list[Place] = [(i, 0, False) for i in range(matrix.shape[1])]
    for solution in solutions:
        places = _add(builder, solution, places)
    graph = builder.build([_output(place) for place in places])
    if not np.array_equal(graph.matrix, matrix):
        raise AssertionError("the solution of alkaid multiplies by another matrix")
    return graph


def _add(builder: GraphBuilder, solution: Any, inputs: list[Place]) -> list[Place]:
    """Add the operations of one part of a solution, and return the places of its outputs."""
    values: list[Place] = []
    for operation in solution.ops:
        if operation.opcode == INPUT:
            at = operation.data[0]
            values.append(_moved(inputs[at], int(solution.inp_shifts[at])))
        elif operation.opcode in (ADD, SUBTRACT):
            left, right = (values[address] for address in operation.addr)
            right = _moved(right, int(operation.data[0]), operation.opcode == SUBTRACT)
            values.append(_sum(builder, left, right))
        else:
            raise ValueError(
                f"alkaid {solver_version()} uses an operation that is not supported: {operation.opcode}"
            )
    found = zip(solution.out_idxs, solution.out_shifts, solution.out_negs, strict=True)
    return [_moved(values[index], int(shift), bool(neg)) if index >= 0 else None for index, shift, neg in found]


def _moved(place: Place, shift: int, negate: bool = False) -> Place:
    return None if place is None else (place[0], place[1] + shift, place[2] != negate)


def _sum(builder: GraphBuilder, left: Place, right: Place) -> Place:
    """Return the place of a sum; of two negated values, the negated sum."""
    if left is None or right is None:
        return left or right
    if left[2] and not right[2]:
        left, right = right, left
    base = min(left[1], right[1])
    value, common = builder.add(left[0], right[0], left[1] - base, right[1] - base, left[2] != right[2])
    return value, common + base, left[2]


def _output(place: Place) -> AdderOutput:
    if place is None:
        return AdderOutput(None)
    if place[1] < 0:
        raise ValueError("the solution of alkaid has fractions for a matrix of integers")
    return AdderOutput(*place)
