"""Tensors of other dtypes than float32: codes, saturation and tolerance."""

from __future__ import annotations

import math

import pytest
import torch

from chop.formats.binary import Binary
from chop.formats.float import BFloat16
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.log import Log
from chop.formats.microscaling import MXFP, MXInt
from chop.formats.minifloat import MinifloatIEEE
from chop.formats.nvfp4 import NVFP4
from chop.formats.ternary import Ternary

pytestmark = pytest.mark.usefixtures("loops")


def test_codes_are_those_of_the_values_before_they_are_rounded_to_the_dtype() -> None:
    # 14 bits, 4 of them exponent: the largest value is (2 - 2**-9) * 2**8 = 511.5, which bfloat16 rounds to 512.
    number_format, x = MinifloatIEEE(14, 4), torch.tensor([1e4], dtype=torch.bfloat16)
    codes, _ = number_format.encode(x)
    assert codes.tolist() == [2**13 - 1]
    assert number_format.decode(codes).tolist() == [511.5]
    assert number_format.quantize(x).tolist() == [512.0]


def test_a_value_beyond_the_dtype_saturates_at_the_largest_value_that_both_have() -> None:
    # 65504, the largest float16, is next to 2**16, which float16 does not have.
    x = torch.tensor([65504.0, torch.inf, -torch.inf], dtype=torch.float16)
    assert Log().quantize(x).tolist() == [2.0**15, 2.0**15, -(2.0**15)]
    assert Log().decode(Log().encode(x)[0]).tolist() == [2.0**15, 2.0**15, -(2.0**15)]
    assert BFloat16().quantize(x).tolist() == [65280.0, 65280.0, -65280.0]  # (2 - 2**-7) * 2**15
    assert Integer(8, -10).quantize(x).tolist() == [63 * 1024.0, 63 * 1024.0, -63 * 1024.0]
    assert MXInt(8, scale_rule="ceil").quantize(x).tolist() == [63 * 1024.0, 63 * 1024.0, -63 * 1024.0]


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_the_largest_float32_stays_finite_in_blocks(element: str, rule: str) -> None:
    number_format = MXFP(element, scale_rule=rule)  # type: ignore[arg-type]
    y = number_format.quantize(torch.tensor([torch.finfo(torch.float32).max, -torch.inf, 1.0]))
    largest = number_format.grid.largest
    top = largest * 2.0 ** (127 - math.frexp(largest)[1] + 1)
    assert y.tolist() == [top, -top, 0.0]


@pytest.mark.parametrize("number_format", [MXFP(), MXFP("e2m1"), MXInt(), NVFP4(), FP8(scale="float")])
def test_codes_of_float64_decode_to_float64(number_format: MXFP) -> None:
    x = torch.randn(4, 40, dtype=torch.float64)
    decoded = number_format.decode(*number_format.encode(x))
    assert decoded.dtype is torch.float64
    assert decoded.equal(number_format.quantize(x))


def test_long_integers_decode_exactly() -> None:
    x = torch.tensor([1.0 + 2.0**-30], dtype=torch.float64)
    assert Integer(32, 30).decode(*Integer(32, 30).encode(x)).equal(x)


def test_nvfp4_contains_what_it_rounds_blocks_of_very_different_sizes_to() -> None:
    # The second block has the scale 2 * 2**-9 (from 1.6): 4.8 becomes 4, whose own scale would be 2**-9, up to 6.
    unit = 2.0**-9
    x = torch.zeros(32)
    x[0], x[16], x[17] = 6 * 448.0, 1.6 * 6 * unit, unit
    y = NVFP4().quantize(x)
    assert y[[0, 16, 17]].tolist() == [2688.0, 8 * unit, unit]
    assert NVFP4().contains(y).all()
    assert not NVFP4().contains(torch.tensor([6.0, 5.0])).all()
    for rounding in ("nearest_even", "nearest_away", "floor", "towards_zero", "stochastic"):
        rounded = NVFP4(rounding=rounding).quantize(torch.randn(64, 128).mul(3).exp())
        assert NVFP4(rounding=rounding).contains(rounded).all()


@pytest.mark.parametrize("number_format", [Binary(), Binary(channel_dim=0), Ternary()])
def test_nan_takes_no_part_in_a_mean(number_format: Binary) -> None:
    y = number_format.quantize(torch.tensor([[1.0, torch.nan, -3.0]]))
    expected = 2.0 if isinstance(number_format, Binary) else 3.0  # ternary: 1 is below 0.7 * 2
    assert y[0, 2] == -expected
    assert number_format.contains(y).tolist() == [[True, False, True]]
    assert number_format.contains(torch.tensor([[2.0, torch.inf, -2.0]])).tolist() == [[True, False, True]]
    assert number_format.contains(torch.zeros(0)).tolist() == []
