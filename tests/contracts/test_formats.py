"""What holds for every number format: a new file in `formats/` is tested on arrival."""

from __future__ import annotations

import tomllib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from chop.formats import FORMATS, Format, parameters
from chop.nn.quantized import QuantConfig

ROUNDING = [name for name in FORMATS if name != "float"]
SCALED_BY_DATA = ("binary", "ternary", "nvfp4")
"""Formats whose scale is a mean of the data, which may move by one ulp when it is taken again."""
OTHER_DTYPES = (torch.float64, torch.bfloat16, torch.float16)
SHAPES = [(), (1,), (7,), (0,), (3, 0), (5, 33), (2, 3, 17), (1, 2, 3, 4)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, *(pytest.param(d, marks=pytest.mark.slow) for d in OTHER_DTYPES)])
@pytest.mark.parametrize("shape", SHAPES)
def test_shape_and_dtype_are_kept_and_the_gradient_passes(
    name: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    y = FORMATS[name]()(x)
    y.sum().backward()
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert y.isfinite().all()
    assert x.grad is not None
    assert x.grad.equal(torch.ones_like(x))


@pytest.mark.parametrize("name", FORMATS)
def test_the_input_is_left_alone(name: str) -> None:
    x = torch.randn(4, 40)
    before = x.clone()
    FORMATS[name]().quantize(x)
    assert x.equal(before)


@pytest.mark.parametrize("name", FORMATS)
def test_memory_layout_makes_no_difference(name: str) -> None:
    number_format, x = FORMATS[name](), torch.randn(40, 6)
    assert number_format.quantize(x.t()).equal(number_format.quantize(x.t().contiguous()))


def numbers(draw_shape: tuple[int, int] = (1, 70)) -> st.SearchStrategy[Tensor]:
    floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
    return st.lists(floats, min_size=draw_shape[0], max_size=draw_shape[1]).map(lambda v: torch.tensor(v))


@pytest.mark.parametrize("name", ROUNDING)
@given(x=numbers())
def test_rounding_twice_changes_nothing(name: str, x: Tensor) -> None:
    number_format = FORMATS[name]()
    once = number_format.quantize(x)
    twice = number_format.quantize(once)
    if name in SCALED_BY_DATA:
        torch.testing.assert_close(twice, once, rtol=2**-22, atol=0)
    else:
        assert twice.equal(once)
    assert number_format.contains(once).all()


@pytest.mark.parametrize("name", ROUNDING)
@given(x=numbers())
def test_a_larger_number_never_becomes_a_smaller_one(name: str, x: Tensor) -> None:
    y = FORMATS[name]().quantize(x.sort().values)
    in_one_block = y[:16]  # a scale or exponent is common to no less than that
    assert (in_one_block.diff() >= 0).all()


@pytest.mark.parametrize("name", ROUNDING)
@given(x=numbers())
def test_integers_times_scale_are_the_quantised_values(name: str, x: Tensor) -> None:
    number_format = FORMATS[name]()
    integers, scale = number_format.integers(x)
    assert not integers.is_floating_point()
    assert (integers * scale).equal(number_format.quantize(x))


@pytest.mark.parametrize("name", ROUNDING)
def test_nan_stays_and_infinities_saturate(name: str) -> None:
    x = torch.tensor([1.0, torch.nan, torch.inf, -torch.inf, -0.5])
    y = FORMATS[name]().quantize(x)
    assert y.isnan().equal(x.isnan())
    rest = y[~y.isnan()]
    assert rest.isfinite().all()
    assert rest[1] > 0 > rest[2]


@pytest.mark.parametrize("name", FORMATS)
def test_a_config_survives_toml(name: str) -> None:
    config = QuantConfig.read({"name": name}, "here")
    assert config is not None
    lines = [f"{key} = {_toml(value)}" for key, value in config.to_dict().items()]
    assert QuantConfig.read(tomllib.loads("\n".join(lines)), "there") == config


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("format_class", FORMATS.values())
def test_everything_is_documented(format_class: type[Format]) -> None:
    assert format_class.__doc__
    assert "\n" not in format_class.__doc__.strip()
    for parameter in parameters(format_class):
        assert parameter.metadata["help"]


@pytest.mark.parametrize("name", FORMATS)
def test_bits_are_the_width_or_more(name: str) -> None:
    number_format = FORMATS[name]()
    assert number_format.bits >= number_format.width == number_format.precision[0]


@pytest.mark.parametrize("name", FORMATS)
@given(x=numbers())
def test_decoding_the_codes_gives_the_quantised_values(name: str, x: Tensor) -> None:
    number_format = FORMATS[name]()
    codes, scales = number_format.encode(x)
    assert not codes.is_floating_point()
    assert codes.shape == x.shape
    assert number_format.decode(codes, scales).equal(number_format.quantize(x))


@pytest.mark.parametrize("name", ROUNDING)
def test_every_code_is_a_number_of_its_own_and_stays_itself(name: str) -> None:
    number_format = FORMATS[name]()
    codes = number_format.all_codes()
    assert len(codes) <= 2**number_format.width
    values = number_format.decode(codes)
    assert values.isfinite().all()
    assert number_format.decode(codes[values.sort().indices]).diff().ge(0).all()
    if name not in (*SCALED_BY_DATA, "block_fp", "mxint", "mxfp", "block_minifloat", "block_log"):
        assert number_format.quantize(values).equal(values)
        assert number_format.decode(*number_format.encode(values)).equal(values)


@pytest.mark.parametrize("name", [n for n in ROUNDING if "rounding" in {p.name for p in parameters(FORMATS[n])}])
@pytest.mark.parametrize("rounding", ["nearest_away", "floor", "towards_zero", "stochastic"])
def test_other_roundings_give_a_neighbour_in_their_direction(name: str, rounding: str) -> None:
    x = torch.randn(64, 32)
    y = FORMATS[name](rounding=rounding).quantize(x)  # type: ignore[call-arg]
    nearest = FORMATS[name]().quantize(x)
    slack = 2**-20 * x.abs()
    if rounding == "floor":
        assert (y <= x + slack)[x > 0].all()
        assert (y <= nearest + slack)[x < 0].all()
    if rounding == "towards_zero":
        assert (y.abs() <= x.abs() + slack).all()
    if rounding == "nearest_away":
        assert ((y - x).abs() <= (nearest - x).abs() + slack).all()
    if rounding == "stochastic":
        torch.manual_seed(3)
        first = FORMATS[name](rounding=rounding).quantize(x)  # type: ignore[call-arg]
        torch.manual_seed(3)
        assert FORMATS[name](rounding=rounding).quantize(x).equal(first)  # type: ignore[call-arg]
        assert not first.equal(y)


@pytest.mark.parametrize("name", [n for n in ROUNDING if n not in ("integer", "binary")])
@given(x=numbers())
def test_the_sign_makes_no_difference(name: str, x: Tensor) -> None:
    """But for two's complement, which reaches further down, and for one bit, in which 0 is positive."""
    number_format = FORMATS[name]()
    assert number_format.quantize(-x).equal(-number_format.quantize(x))


@pytest.mark.parametrize("name", [n for n in ROUNDING if "block_size" in {p.name for p in parameters(FORMATS[n])}])
@given(x=numbers((33, 70)), factor=st.floats(1e-3, 1e3))
def test_blocks_do_not_see_each_other(name: str, x: Tensor, factor: float) -> None:
    number_format = FORMATS[name](block_size=16)  # type: ignore[call-arg]
    changed = torch.cat([x[:16], x[16:] * factor])
    if name == "nvfp4" and changed.abs().max() != x.abs().max():
        return  # its tensor has a scale as well
    assert number_format.quantize(changed)[:16].equal(number_format.quantize(x)[:16])


@pytest.mark.parametrize("name", ROUNDING)
@given(x=numbers())
def test_nothing_exceeds_the_largest_value(name: str, x: Tensor) -> None:
    number_format = FORMATS[name]()
    y = number_format.quantize(x)
    assert y.isfinite().all()
    if number_format.scale_for(1.0) is None and not number_format.encode(x)[1]:
        top = number_format.decode(number_format.all_codes()).abs().max()
        assert (y.abs() <= top).all()
