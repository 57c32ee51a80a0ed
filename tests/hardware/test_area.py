"""Estimated look-up tables of single operations, as `synth_xilinx -family xc7` of Yosys 0.6x maps them."""

from __future__ import annotations

import pytest

from chop.hardware.adders import AdderGraph, AdderOutput, Addition
from chop.hardware.rtl.arithmetic import Rounding, adder_luts, constant_luts, requantized
from chop.hardware.rtl.circuit import Circuit, Wire

X = Wire("x", -128, 127, 0, 0)


def test_ranges_of_sums_are_those_of_their_factors() -> None:
    three = Addition(0, 0, 2, 0, subtract=True)
    thirteen = Addition(0, 1, 4, 0, subtract=True)
    graph = AdderGraph(1, (three, thirteen), (AdderOutput(2),))
    assert graph.ranges([(-128, 127)]) == [(-128, 127), (-384, 381), (-1664, 1651)]  # not 16 * 127 + 384


def test_adders_take_a_table_per_bit_in_which_both_operands_vary() -> None:
    assert adder_luts((X, 2), (X, 0), 10, subtract=True) == 9  # 7 LUT2 and 2 INV; the sign bit meets itself
    assert adder_luts((X, 4), (Wire("v", -384, 381, 0, 0), 0), 12, subtract=True) == 12  # 8 LUT2, 4 INV
    assert constant_luts(Wire("v", -1664, 1651, 0, 0), -56, 12) == 7  # 7 INV


@pytest.mark.parametrize(
    ("before", "tables"),
    [((-1664, 1651), 2), ((-2048, 2047), 2), ((-2048, 2300), 8)],
    ids=["reset and lowest bit", "the same range as the result", "7 bits and reset"],
)
def test_relu_is_a_reset_and_only_upper_limits_take_tables(before: tuple[int, int], tables: int) -> None:
    circuit = Circuit(10)
    requantized(circuit, Wire("v", *before, 0, 0), Rounding(4, "nearest_even", 0, 127), offset_is_added=True)
    assert circuit.luts == tables
