"""OCP and related formats compared with ml_dtypes and exact arithmetic."""

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

from chop.formats import FORMATS
from chop.formats.block_minifloat import BlockMinifloat
from chop.formats.fp8 import FP8
from chop.formats.log import BlockLog, Log
from chop.formats.microscaling import MXFP, MXInt
from chop.formats.minifloat import MinifloatDenorm, MinifloatIEEE
from chop.formats.nvfp4 import NVFP4
from formats.references import hard_numbers

pytestmark = pytest.mark.usefixtures("loops")

ELEMENTS = {
    "e5m2": (ml_dtypes.float8_e5m2, 57344.0, 15, 2),
    "e4m3": (ml_dtypes.float8_e4m3fn, 448.0, 8, 3),
    "e3m2": (ml_dtypes.float6_e3m2fn, 28.0, 4, 2),
    "e2m3": (ml_dtypes.float6_e2m3fn, 7.5, 2, 3),
    "e2m1": (ml_dtypes.float4_e2m1fn, 6.0, 2, 1),
}


def cast(x: Tensor, dtype: type, limit: float) -> Tensor:
    return torch.from_numpy(x.clamp(-limit, limit).numpy().astype(dtype).astype(np.float32))


@pytest.mark.parametrize("element", ["e4m3", "e5m2"])
def test_fp8_equals_ml_dtypes(element: str) -> None:
    dtype, limit, _, _ = ELEMENTS[element]
    x = hard_numbers()
    ours, reference = FP8(element).quantize(x), cast(x, dtype, limit)  # type: ignore[arg-type]
    assert ours.ne(reference).sum() == 0
    assert ours.signbit().equal(reference.signbit())


@pytest.mark.parametrize(("name", "dtype"), [("bfloat16", ml_dtypes.bfloat16), ("float16", np.float16)])
def test_half_formats_equal_numpy(name: str, dtype: type) -> None:
    x = hard_numbers()
    limit = float(ml_dtypes.finfo(dtype).max)
    ours, reference = FORMATS[name]().quantize(x), cast(x, dtype, limit)
    assert ours.ne(reference).sum() == 0
    assert ours.signbit().equal(reference.signbit())


@pytest.mark.parametrize("element", ELEMENTS)
def test_codes_are_the_bit_patterns_of_the_standard(element: str) -> None:
    dtype, limit, _, _ = ELEMENTS[element]
    x = torch.linspace(-limit, limit, 4001)
    codes, _ = MXFP(element, block_size=1, scale_rule="floor").encode(torch.full((1,), limit))  # type: ignore[arg-type]
    ours = MXFP(element).grid.encode(cast(x, dtype, limit))  # type: ignore[arg-type]
    theirs = x.numpy().astype(dtype).view(np.uint8).astype(np.int64)
    assert codes.numel() == 1
    assert (ours.numpy() == theirs).all()


def exponent_of_scale(largest: float, rule: str, emax: int, element_largest: float, mantissa: int) -> int:
    """Compute the formulas of the standard in exact arithmetic."""
    if largest == 0:
        return -127
    exact = Fraction(largest)
    floor = math.frexp(largest)[1] - 1
    if rule == "floor":
        s = floor - emax
    elif rule == "ceil":
        s = (floor if exact == Fraction(2) ** floor else floor + 1) - emax
    elif rule == "even":
        rounded = round(exact / Fraction(2) ** (floor - mantissa))
        s = (floor + 1 if rounded == 2 ** (mantissa + 1) else floor) - emax
    else:
        s = math.frexp(float(exact / Fraction(element_largest)))[1] - 3
        while Fraction(element_largest) * Fraction(2) ** s < exact:
            s += 1
    return max(-127, min(127 - emax, s))  # above, the largest elements are beyond float32


def blocks_of_32() -> Tensor:
    hard = hard_numbers()
    hard = hard[torch.randperm(len(hard))[: 32 * 300]].reshape(300, 32)
    scales = 2.0 ** torch.randint(-40, 40, (700, 1)).float()
    edges = torch.tensor(
        [[0.0] * 32, [1.75] + [0.1] * 31, [2.0**-126] * 32, [2.0**-127] * 32, [1.5 * 2.0**-127] * 32]
    )
    powers = torch.full((5, 32), 0.3)
    powers[:, 0] = torch.tensor([1.0, 2.0, 1.9375, 1.96875, 3.5])
    return torch.cat([hard, torch.randn(700, 32) * scales, edges, powers])


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
@pytest.mark.parametrize("element", ELEMENTS)
def test_mxfp_equals_the_standard_on_ml_dtypes(element: str, rule: str) -> None:
    dtype, limit, emax, mantissa = ELEMENTS[element]
    x = blocks_of_32()
    exponents = [exponent_of_scale(m, rule, emax, limit, mantissa) for m in x.abs().amax(1).tolist()]
    scale = torch.tensor([[math.ldexp(1.0, s)] for s in exponents], dtype=torch.float64)
    elements = cast((x.double() / scale).float(), dtype, limit)
    reference = (elements.double() * scale).float()
    ours = MXFP(element, scale_rule=rule).quantize(x)  # type: ignore[arg-type]
    assert ours.ne(reference).sum() == 0


@cache
def blocks_and_reference(width: int, rule: str) -> tuple[Tensor, Tensor]:
    """Return blocks, and what they become in MXINT; computed once for the eager and the compiled definition."""
    x, limit = blocks_of_32(), 2 ** (width - 1) - 1
    unit = Fraction(2) ** (2 - width)
    rows = []
    for row in x.tolist():
        s = exponent_of_scale(max(map(abs, row)), rule, 0, float(limit * unit), width - 2)
        step = unit * Fraction(2) ** s
        rows.append([float(max(-limit, min(limit, round(Fraction(v) / step))) * step) for v in row])
    return x, torch.tensor(rows)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
@pytest.mark.parametrize("width", [8, 4])
def test_mxint_equals_exact_arithmetic(width: int, rule: str) -> None:
    x, reference = blocks_and_reference(width, rule)
    assert MXInt(width, scale_rule=rule).quantize(x).ne(reference).sum() == 0  # type: ignore[arg-type]


SQNR = {"e2m1": 18.79, "e2m3": 30.94, "e3m2": 25.36, "e4m3": 30.64, "e5m2": 25.36}


@pytest.mark.parametrize("element", SQNR)
def test_mxfp_noise_of_normal_data(element: str) -> None:
    x = torch.randn(2**15, 32)
    error = MXFP(element).quantize(x) - x  # type: ignore[arg-type]
    found = 10 * math.log10(x.double().square().sum() / error.double().square().sum())
    assert abs(found - SQNR[element]) < 0.1


def test_nvfp4_equals_a_reference_on_ml_dtypes() -> None:
    x = torch.randn(200, 64) * 2.0 ** torch.randint(-8, 8, (200, 1)).float()
    tensor_scale = x.abs().amax() / 2688.0
    blocks = x.reshape(200, 4, 16)
    block_scale = cast(blocks.abs().amax(2, keepdim=True) / 6 / tensor_scale, ml_dtypes.float8_e4m3fn, 448.0)
    total = block_scale * tensor_scale
    ratio = torch.where(total > 0, blocks / total, torch.zeros(()))
    reference = (cast(ratio, ml_dtypes.float4_e2m1fn, 6.0) * total).reshape(200, 64)
    assert NVFP4().quantize(x).ne(reference).sum() == 0


def nearest(x: Tensor, values: list[float], even: list[bool]) -> Tensor:
    """Return the nearest of all representable numbers; ties go to the even code."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    grid = torch.tensor([values[i] for i in order], dtype=torch.float64)
    is_even = torch.tensor([even[i] for i in order])
    wide = x.double().clamp(grid[0], grid[-1])
    above = torch.searchsorted(grid, wide).clamp(1, len(grid) - 1)
    low, high = grid[above - 1], grid[above]
    up = (high - wide < wide - low) | ((high - wide == wide - low) & is_even[above])
    return torch.where(up, high, low).float()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "bias"), [(8, None), (4, None), (4, 0), (3, 2)])
def test_log_is_the_nearest_power_of_two(width: int, bias: int | None) -> None:
    b = 2 ** (width - 2) if bias is None else bias
    codes = range(1, 2 ** (width - 1))
    values = [0.0, *(2.0 ** (c - b) for c in codes), *(-(2.0 ** (c - b)) for c in codes)]
    even = [True, *(c % 2 == 0 for c in codes), *(c % 2 == 0 for c in codes)]
    powers = torch.tensor([2.0 ** (c - b) for c in codes])
    x = torch.cat([hard_numbers(), powers * 1.5, powers * 0.5, -1.5 * powers])
    assert Log(width, bias).quantize(x).ne(nearest(x, values, even)).sum() == 0


@pytest.mark.parametrize(("width", "exponent_width"), [(8, 4), (6, 2), (5, 2), (8, 3)])
def test_minifloat_denorm_is_the_nearest_over_all_exponents(width: int, exponent_width: int) -> None:
    mantissa, bias = width - 1 - exponent_width, 2 ** (exponent_width - 1) - 1
    found: dict[float, bool] = {}
    for e in range(2**exponent_width):
        for m in range(2**mantissa):
            # If a number has several codes, the one with the smallest step decides which neighbour is even.
            found.setdefault(2.0 ** (e - bias) * m / 2**mantissa, m % 2 == 0)
    values = [*found, *(-v for v in found if v)]
    even = [*found.values(), *(e for v, e in found.items() if v)]
    x = hard_numbers()
    assert MinifloatDenorm(width, exponent_width).quantize(x).ne(nearest(x, values, even)).sum() == 0


def test_block_minifloat_is_a_minifloat_with_the_blocks_bias() -> None:
    x = torch.randn(50, 16) * 2.0 ** torch.randint(-20, 20, (50, 1)).float()
    ours = BlockMinifloat(8, 4).quantize(x)
    for row, got in zip(x, ours, strict=True):
        bias = 15 - (math.frexp(row.abs().max().item())[1] - 1)
        assert MinifloatIEEE(8, 4, bias).quantize(row).equal(got)


def test_block_minifloat_bias_is_limited_by_its_width() -> None:
    # two bits: the bias is -2 .. 1, so that 2**(15 - 1) is the lowest top binade
    narrow = BlockMinifloat(8, 4, exponent_bias_width=2)
    assert narrow.quantize(torch.tensor([1.0, 2.0**-20])).equal(
        MinifloatIEEE(8, 4, 1).quantize(torch.tensor([1.0, 2.0**-20]))
    )


def test_the_top_code_of_block_log_is_the_power_nearest_to_the_maximum() -> None:
    # width 4: powers from 2**0 down to 2**-6 of the top
    x = torch.tensor([[1.4, 0.3, 2.0**-6, 2.0**-8], [1.6, 0.3, 2.0**-5, 2.0**-8]])
    assert BlockLog(4, block_size=4).quantize(x).tolist() == [[1.0, 0.25, 2.0**-6, 0.0], [2.0, 0.25, 2.0**-5, 0.0]]


@pytest.mark.parametrize(
    ("rounding", "mode"),
    [
        ("towards_zero", gfloat.RoundMode.TowardZero),
        ("floor", gfloat.RoundMode.TowardNegative),
        ("nearest_away", gfloat.RoundMode.TiesToAway),
    ],
)
@pytest.mark.parametrize(("width", "exponent_width"), [(8, 4), (6, 3), (4, 3)])
def test_other_roundings_equal_gfloat(
    width: int, exponent_width: int, rounding: str, mode: gfloat.RoundMode
) -> None:
    reference_format = gfloat.FormatInfo(
        name="every code a number",
        k=width,
        precision=width - exponent_width,
        bias=2 ** (exponent_width - 1) - 1,
        has_nz=True,
        domain=gfloat.Domain.Finite,
        num_high_nans=0,
        has_subnormals=True,
        is_signed=True,
        is_twos_complement=False,
    )
    x = hard_numbers()
    reference = gfloat.round_ndarray(reference_format, x.numpy().astype(np.float64), mode, True)
    ours = MinifloatIEEE(width, exponent_width, rounding=rounding).quantize(x)  # type: ignore[arg-type]
    assert (ours.numpy().astype(np.float64) != reference).sum() == 0
