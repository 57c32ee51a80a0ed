"""Values worked out by hand from the definitions of the formats."""

from __future__ import annotations

import math

import pytest
import torch

from chop.formats.binary import Binary
from chop.formats.block_fp import BlockFP
from chop.formats.integer import Integer
from chop.formats.minifloat_ieee import MinifloatIEEE
from chop.formats.ternary import Ternary


@pytest.mark.parametrize(
    ("value", "expected"), [(0.30, 0.3125), (0.03125, 0.0), (0.09375, 0.125), (7.97, 7.9375), (-9.0, -8.0)]
)
def test_integer_rounds_half_to_even_and_saturates(value: float, expected: float) -> None:
    assert Integer(width=8, frac_width=4).quantize(torch.tensor(value)) == expected


@pytest.mark.parametrize(
    ("number_format", "value", "expected"),
    [
        (Integer(4, -2), 5.0, 4.0),  # steps of 4
        (Integer(4, -2), 100.0, 28.0),  # 7 * 4
        (Integer(4, 6), 1.0, 7 / 64),
        (Integer(4, 1, is_signed=False), -1.0, 0.0),
        (Integer(4, 1, is_signed=False), 99.0, 7.5),
        (Integer(1, 0), 5.0, 0.0),  # one bit of two's complement: -1 and 0
        (Integer(1, 0), -5.0, -1.0),
        (Integer(32, 0), 1e30, 2147483520.0),  # the largest float32 below 2**31
        (Integer(32, 0), -1e30, -2147483648.0),
        (Integer(8, None), 1.03, 1.0),  # half of the width behind the point
    ],
)
def test_integer_of_other_shapes(number_format: Integer, value: float, expected: float) -> None:
    assert number_format.quantize(torch.tensor(value)).item() == expected
    assert number_format.contains(torch.tensor(expected))


def test_integer_knows_what_it_cannot_represent() -> None:
    x = torch.tensor([0.25, 0.26, 7.9375, 8.0, -8.0, -8.0625])
    assert Integer(8, 4).contains(x).tolist() == [True, False, True, False, True, False]


def test_integer_gives_its_integers() -> None:
    integers, scale = Integer(8, 4).integers(torch.tensor([0.3, -8.0, 100.0]))
    assert integers.tolist() == [5, -128, 127]
    assert scale == 0.0625


def test_binary_scales_by_the_mean_magnitude_of_each_channel_of_weights() -> None:
    x = torch.tensor([[1.0, -3.0], [0.0, 0.5]])
    assert Binary().quantize(x).tolist() == [[1.125, -1.125], [1.125, 1.125]]
    assert Binary().placed(-1, 0).quantize(x).tolist() == [[2.0, -2.0], [0.25, 0.25]]
    assert Binary(scaling=False).quantize(x).tolist() == [[1.0, -1.0], [1.0, 1.0]]


def test_stochastic_binary_is_positive_with_probability_of_the_hard_sigmoid() -> None:
    y = Binary(scaling=False, stochastic=True).quantize(torch.full((100_000,), 0.5))
    share = (y > 0).double().mean().item()
    assert abs(share - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 100_000)


def test_ternary_drops_small_values_and_scales_by_the_mean_of_the_rest() -> None:
    # mean magnitude 1.1, threshold 0.77: 0.1 goes, (1 + 3 + 1.1 ... ) stay
    x = torch.tensor([0.1, -1.0, 3.0, 0.3])
    assert Ternary().quantize(x).tolist() == [0.0, -2.0, 2.0, 0.0]
    assert Ternary(scaling=False).quantize(x).tolist() == [0.0, -1.0, 1.0, 0.0]


def test_minifloat_has_every_code_as_a_number() -> None:
    e4m3 = MinifloatIEEE(width=8, exponent_width=4)
    x = torch.tensor([480.0, 1e9, 2.0**-9, 2.0**-10, 2.0**-10 * 1.01, 17.0, 19.0, 496.0])
    assert e4m3.quantize(x).tolist() == [480.0, 480.0, 2.0**-9, 0.0, 2.0**-9, 16.0, 20.0, 480.0]


def test_minifloat_without_mantissa_is_powers_of_two() -> None:
    # E3M0, bias 3: code 0 is zero, then 2**-2 .. 2**4
    y = MinifloatIEEE(width=4, exponent_width=3).quantize(torch.tensor([0.1, 0.13, 3.1, 6.1, 100.0]))
    assert y.tolist() == [0.0, 0.25, 4.0, 8.0, 16.0]


def test_minifloat_without_mantissa_takes_the_even_code_at_a_tie() -> None:
    # codes: 0.25 is 1, 0.5 is 2, 1 is 3, 2 is 4
    y = MinifloatIEEE(width=4, exponent_width=3).quantize(torch.tensor([0.125, 0.375, 0.75, 1.5, -1.5]))
    assert y.tolist() == [0.0, 0.5, 0.5, 2.0, -2.0]


def test_block_fp_shares_the_exponent_of_the_largest() -> None:
    # width 4: |k| <= 7. Largest 1.9 -> e = 1, step 2**(1 - 3) = 0.25; 1.9 / 0.25 = 7.6 -> 8 -> clamped to 7
    x = torch.tensor([1.9, 0.3, -0.125, 0.38])
    assert BlockFP(width=4, block_size=4).quantize(x).tolist() == [1.75, 0.25, 0.0, 0.5]


def test_block_fp_blocks_are_independent_and_the_last_one_may_be_short() -> None:
    x = torch.tensor([100.0, 1.0, 0.01, 0.02, 3.0])
    y = BlockFP(width=4, block_size=2).quantize(x)
    assert y.tolist() == [96.0, 0.0, 0.01171875, 0.01953125, 3.0]


def test_block_fp_runs_along_the_dimension_it_is_put_on() -> None:
    x = torch.tensor([[100.0, 1.0], [0.1, 0.01]])
    along_columns = BlockFP(width=4, block_size=2).placed(0, None).quantize(x)
    assert along_columns.t().equal(BlockFP(width=4, block_size=2).quantize(x.t()))
    assert along_columns[1, 1] == 0.0
    assert along_columns[0, 1] == 1.0


def test_block_fp_tiles() -> None:
    x = torch.ones(2, 4)
    x[0, 0] = 100.0
    y = BlockFP(width=4, block_size=(2, 2)).quantize(x)
    assert y.tolist() == [[96.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    assert BlockFP(width=4, block_size=(1, 2)).bits == 4 + 8 / 2


def test_block_fp_exponent_is_clamped_to_its_bits() -> None:
    # two exponent bits, bias 1: e is -1 .. 2, so nothing from 4 * (7 / 8) on
    narrow = BlockFP(width=4, exponent_width=2, block_size=1)
    assert narrow.quantize(torch.tensor([100.0, 0.01, 0.2])).tolist() == [3.5, 0.0, 0.1875]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integer(width=0), "width must be from 1 to 32, got 0"),
        (lambda: Integer(frac_width=200), "frac_width must be from -96 to 126, got 200"),
        (lambda: MinifloatIEEE(width=4, exponent_width=4), "exponent_width must be from 1 to 3, got 4"),
        (lambda: BlockFP(block_size=0), "block_size must be a positive integer or a list of them, got 0"),
        (lambda: Ternary(threshold=-1), "threshold must be 0 or more, got -1"),
    ],
)
def test_impossible_parameters_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()
