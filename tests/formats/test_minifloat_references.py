"""Formats compared with other libraries."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import gfloat
import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from chop.formats.block_fp import BlockFP
from chop.formats.minifloat import MinifloatIEEE
from formats.references import hard_numbers

pytestmark = pytest.mark.usefixtures("loops")


@pytest.mark.parametrize(
    ("exponent_width", "mantissa_width", "dtype"),
    [(3, 2, ml_dtypes.float6_e3m2fn), (2, 3, ml_dtypes.float6_e2m3fn), (2, 1, ml_dtypes.float4_e2m1fn)],
)
def test_minifloats_without_specials_equal_ml_dtypes(exponent_width: int, mantissa_width: int, dtype: type) -> None:
    x = hard_numbers()
    ours = MinifloatIEEE(1 + exponent_width + mantissa_width, exponent_width).quantize(x)
    limit = float(ml_dtypes.finfo(dtype).max)
    reference = x.clamp(-limit, limit).numpy().astype(dtype).astype(np.float32)
    assert (ours.numpy() != reference).sum() == 0


@pytest.mark.parametrize(
    ("width", "exponent_width"), [(8, 4), (8, 5), (8, 2), (6, 3), (12, 5), (16, 8), (4, 3), (8, 7)]
)
def test_minifloats_equal_gfloat(width: int, exponent_width: int) -> None:
    top = 2**exponent_width - 1
    bias = 2 ** (exponent_width - 1) - 1
    reference_format = gfloat.FormatInfo(
        name="every code a number",
        k=width,
        precision=width - exponent_width,
        bias=bias,
        has_nz=True,
        domain=gfloat.Domain.Finite,
        num_high_nans=0,
        has_subnormals=True,
        is_signed=True,
        is_twos_complement=False,
    )
    x = hard_numbers().numpy().astype(np.float64)
    reference = gfloat.round_ndarray(reference_format, x, gfloat.RoundMode.TiesToEven, True)
    ours = MinifloatIEEE(width, exponent_width).quantize(torch.from_numpy(x).float()).numpy().astype(np.float64)
    within = np.abs(reference) <= np.finfo(np.float32).max  # E8 reaches beyond float32, where ours saturates
    assert top >= 1
    assert (ours[within] != reference[within]).sum() == 0


def test_every_midpoint_of_e4m3_and_its_neighbours_round_as_defined() -> None:
    e4m3 = MinifloatIEEE(8, 4)
    codes = [math.ldexp(m, -9) for m in range(8)]
    codes += [math.ldexp(8 + m, e - 7 - 3) for e in range(1, 16) for m in range(8)]
    values = torch.tensor(codes)
    assert e4m3.quantize(values).equal(values)
    middle = (values[:-1] + values[1:]) / 2
    even = values[[i if i % 2 == 0 else i + 1 for i in range(len(middle))]]
    assert e4m3.quantize(middle).equal(even)
    assert e4m3.quantize(middle.nextafter(torch.tensor(0.0))).equal(values[:-1])
    assert e4m3.quantize(middle.nextafter(torch.tensor(1e9))).equal(values[1:])


def block_fp_by_fractions(x: list[float], width: int, exponent_width: int) -> list[float]:
    """Compute the definition in exact arithmetic, for one block."""
    bias = 2 ** (exponent_width - 1) - 1
    largest = max(abs(Fraction(v)) for v in x)
    exponent = -bias
    if largest:
        exponent = max(-bias, min(math.frexp(float(largest))[1], 2**exponent_width - 1 - bias))
    step = Fraction(2) ** (exponent - (width - 1))
    limit = 2 ** (width - 1) - 1
    return [float(max(-limit, min(limit, round(Fraction(v) / step))) * step) for v in x]


@cache
def rows_and_reference(width: int, exponent_width: int) -> tuple[Tensor, Tensor]:
    """Return rows of 16 numbers, and what they become; computed once for the eager and the compiled definition."""
    x = hard_numbers()
    x = x[torch.randperm(len(x))[: 16 * 2000]]
    scale = 2.0 ** torch.randint(-30, 30, (2000, 1)).float()
    rows = torch.cat([x.reshape(2000, 16), torch.randn(2000, 16) * scale, torch.zeros(1, 16)])
    return rows, torch.tensor([block_fp_by_fractions(row, width, exponent_width) for row in rows.tolist()])


@pytest.mark.slow
@pytest.mark.parametrize(("width", "exponent_width"), [(8, 8), (4, 8), (8, 5), (3, 4), (12, 8)])
def test_block_fp_equals_exact_arithmetic(width: int, exponent_width: int) -> None:
    rows, reference = rows_and_reference(width, exponent_width)
    ours = BlockFP(width, exponent_width).quantize(rows)
    assert ours.ne(reference).sum() == 0


def test_float64_is_not_rounded_twice() -> None:
    # Just above a tie of E4M3: float32 would round it onto the tie, and then down.
    x = torch.tensor([17 + 2.0**-40], dtype=torch.float64)
    assert MinifloatIEEE(8, 4).quantize(x).item() == 18.0
