"""Adder graphs from canonical signed digits: no solver is needed, and only equal terms are shared."""

from __future__ import annotations

import heapq

from chop.hardware.adders.adder_graph import AdderGraph, AdderOutput, GraphBuilder
from chop.hardware.program.signal import IntArray


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
