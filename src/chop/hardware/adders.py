"""Products with constants as networks of adders: from alkaid, or else from canonical signed digits."""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from chop.files import CorruptFileError, read_json, write_json
from chop.hardware.program.signal import IntArray

logger = logging.getLogger(__name__)
MAX_EXACT = 2**24
"""Integers above this lose digits in the float32 matrix that alkaid takes."""
INPUT, ADD, SUBTRACT = -1, 0, 1
"""The opcodes of alkaid that a solution may contain."""
Place = tuple[int, int, bool] | None
"""A value of the graph, its shift (which may be negative) and whether it is negated; None: always 0."""
Range = tuple[int, int]


@dataclass(frozen=True)
class Addition:
    """`(left << left_shift) + (right << right_shift)`, or their difference; one of the shifts is 0."""

    left: int
    right: int
    left_shift: int
    right_shift: int
    subtract: bool

    def apply(self, left: Any, right: Any) -> Any:
        """Return the sum or the difference of two values."""
        a, b = left << self.left_shift, right << self.right_shift
        return a - b if self.subtract else a + b


@dataclass(frozen=True)
class AdderOutput:
    """A value of the network, shifted and possibly negated; 0 if `value` is None."""

    value: int | None
    shift: int = 0
    negated: bool = False


@dataclass(frozen=True)
class AdderGraph:
    """Values are numbered: first the inputs, then the additions, in an order in which they can be computed."""

    num_inputs: int
    additions: tuple[Addition, ...]
    outputs: tuple[AdderOutput, ...]

    def run(self, inputs: IntArray) -> IntArray:
        """Return [rows, outputs] for integers [rows, inputs]."""
        values = self._values(inputs)
        columns = [
            np.zeros(len(inputs), dtype=np.int64)
            if out.value is None
            else (values[out.value] << out.shift) * (-1 if out.negated else 1)
            for out in self.outputs
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(inputs), 0), dtype=np.int64)

    def _values(self, inputs: IntArray) -> list[IntArray]:
        """Return all values for integers [rows, inputs]."""
        values = [inputs[:, i] for i in range(self.num_inputs)]
        for each in self.additions:
            values.append(each.apply(values[each.left], values[each.right]))
        return values

    @cached_property
    def matrix(self) -> IntArray:
        """The matrix [outputs, inputs] that the network multiplies by."""
        return self.run(np.eye(self.num_inputs, dtype=np.int64)).T

    def ranges(self, inputs: list[Range]) -> list[Range]:
        """Return the smallest and largest integer of each value, exactly: 4 x - x is 3 x."""
        factors = np.array(self._values(np.eye(self.num_inputs, dtype=np.int64)))
        low, high = np.array(inputs, dtype=np.int64).reshape(-1, 2).T
        positive, negative = np.maximum(factors, 0), np.minimum(factors, 0)
        lowest, highest = positive @ low + negative @ high, positive @ high + negative @ low
        return list(zip(lowest.tolist(), highest.tolist(), strict=True))


class GraphBuilder:
    """An adder graph while it is built; equal additions are shared."""

    def __init__(self, num_inputs: int) -> None:
        self.num_inputs = num_inputs
        self.additions: list[Addition] = []
        self._known: dict[Addition, int] = {}

    def add(self, left: int, right: int, left_shift: int, right_shift: int, subtract: bool) -> tuple[int, int]:
        """Return the number of a sum, and by how much it is to be shifted to the left."""
        common = min(left_shift, right_shift)
        new = Addition(left, right, left_shift - common, right_shift - common, subtract)
        if new not in self._known:
            self._known[new] = self.num_inputs + len(self.additions)
            self.additions.append(new)
        return self._known[new], common

    def build(self, outputs: list[AdderOutput]) -> AdderGraph:
        """Return the graph."""
        return AdderGraph(self.num_inputs, tuple(self.additions), tuple(outputs))


def signed_digits(constant: int) -> list[tuple[int, int]]:
    """Return the canonical signed digits of an integer as (power, sign): 7 is 8 - 1, [(0, -1), (3, 1)]."""
    digits, power = [], 0
    while constant:
        if constant & 1:
            sign = 2 - (constant & 3)
            digits.append((power, sign))
            constant -= sign
        constant >>= 1
        power += 1
    return digits


def solve_csd(matrix: IntArray) -> AdderGraph:
    """Return adders for a matrix [outputs, inputs]: for each output a balanced tree of its signed digits."""
    builder = GraphBuilder(matrix.shape[1])
    outputs = []
    for row in matrix.tolist():
        # (depth, order, value, shift, sign); the shallowest two are added first
        terms = [
            (0, power * len(row) + i, i, power, sign)
            for i, weight in enumerate(row)
            for power, sign in signed_digits(weight)
        ]
        heapq.heapify(terms)
        order = 1 << 40
        while len(terms) > 1:
            first, second = heapq.heappop(terms), heapq.heappop(terms)
            if first[4] < 0 < second[4]:
                first, second = second, first
            value, common = builder.add(first[2], second[2], first[3], second[3], first[4] != second[4])
            order += 1
            heapq.heappush(terms, (max(first[0], second[0]) + 1, order, value, common, first[4]))
        outputs.append(AdderOutput(terms[0][2], terms[0][3], terms[0][4] < 0) if terms else AdderOutput(None))
    return builder.build(outputs)


def has_alkaid() -> bool:
    """Whether alkaid (LGPL, an optional dependency that is used unmodified) can be imported."""
    return find_spec("alkaid") is not None


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
            solver = f"alkaid {version('alkaid')}"
            raise ValueError(f"{solver} uses an operation that is not supported: {operation.opcode}")
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


def solve(matrix: IntArray, ranges: list[Range], use_alkaid: bool = True) -> AdderGraph:
    """Return adders for a matrix [outputs, inputs] whose inputs have these ranges."""
    if not use_alkaid or not has_alkaid() or abs(matrix).max(initial=0) >= MAX_EXACT:
        return solve_csd(matrix)
    matrix = np.where([low == high == 0 for low, high in ranges], 0, matrix)  # the solver expects inputs that vary
    ranges = [(min(low, 0), max(high, 0)) for low, high in ranges]
    key = json.dumps(["alkaid", version("alkaid"), matrix.tolist(), ranges])
    root = Path(os.environ.get("CHOP_CACHE") or Path.home() / ".cache" / "chop")
    path = root / "adders" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    if path.is_file():
        try:
            stored = read_json(path)
            additions = tuple(Addition(**fields) for fields in stored["additions"])
            outputs = tuple(AdderOutput(**fields) for fields in stored["outputs"])
            return AdderGraph(stored["num_inputs"], additions, outputs)
        except (CorruptFileError, KeyError, TypeError) as error:
            logger.warning("%s is corrupt and will be replaced: %s", path, error)
    graph = solve_alkaid(matrix, ranges)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(graph))
    return graph
