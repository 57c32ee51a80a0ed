"""What holds for every number format. A new file in `formats/` is tested without further edits."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import torch
from fuzz.areas.formats import JACOBIANS, TRANSFORMS, check_numbers, check_transform, make_tensor
from hypothesis import given, note
from hypothesis import strategies as st
from torch.func import vmap

from chop.formats import FORMATS, Format, parameters
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.nn.quantized import QuantConfig

ROUNDING = [name for name, each in FORMATS.items() if each.rounds]
WITH_CODES = [name for name, each in FORMATS.items() if each.has_codes()]


def rounding_with(parameter: str) -> list[str]:
    """Return the names of the formats that round and have a parameter."""
    return [name for name in ROUNDING if parameter in {field.name for field in parameters(FORMATS[name])}]


DTYPES = ("float32", *(pytest.param(name, marks=pytest.mark.slow) for name in ("float64", "bfloat16", "float16")))
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (7,), (0,), (3, 0), (5, 33), (2, 3, 17), (1, 2, 3, 4))
ROUNDINGS = ("nearest_even", "nearest_away", "floor", "towards_zero", "stochastic")
TENSORS: tuple[dict[str, Any], ...] = (
    *({"shape": shape, "layout": "contiguous", "kind": "normal", "special": "none"} for shape in SHAPES),
    {"shape": (7,), "layout": "offset", "kind": "ties", "special": "extremes"},
    {"shape": (5, 33), "layout": "transposed", "kind": "normal", "special": "mixed"},
    {"shape": (4, 40), "layout": "expanded", "kind": "integers", "special": "inf"},
    {"shape": (2, 3, 17), "layout": "strided", "kind": "powers", "special": "nan"},
    {"shape": (2, 4, 3, 5), "layout": "channels_last", "kind": "log_normal", "special": "none"},
)
"""Tensors as the fuzzer makes them."""
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize("name", ROUNDING)
@pytest.mark.parametrize("dtype", DTYPES)
def test_promises_hold_in_every_dtype_shape_layout_and_rounding(name: str, dtype: str) -> None:
    choices = [{"rounding": rounding} for rounding in ROUNDINGS] if name in rounding_with("rounding") else [{}]
    for tensor in TENSORS:
        for options in choices:
            check_numbers(FORMATS[name](**options), make_tensor({**tensor, "dtype": dtype, "seed": 0}))


@given(numbers=st.lists(FLOATS, min_size=1, max_size=70))
def test_promises_hold_for_all_numbers(numbers: list[float]) -> None:
    for name in ROUNDING:  # in one test, because making an example takes longer than checking it
        note(name)
        check_numbers(FORMATS[name](), torch.tensor(numbers))


TRANSFORMED = {
    **{name: (FORMATS[name](), None) for name in ROUNDING},
    "channels": (Integer(8, scale="float", granularity="channel", channel_dim=0), None),
    "powers": (Integer(8, granularity="row"), None),
    "groups": (Integer(4, scale="float", granularity="group", group_size=8), None),
    "calibrated": (FP8(scale="float"), torch.tensor(0.01)),
}
"""Formats, and a scale for those that take one."""


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("name", TRANSFORMED)
def test_every_transform_of_torch_sees_the_identity_and_rounds_as_outside_of_it(name: str) -> None:
    number_format, scale = TRANSFORMED[name]
    x = torch.randn(4, 8) * torch.tensor([[0.1], [1.0], [3.0], [50.0]])
    for transform in (*TRANSFORMS, *JACOBIANS):
        check_transform(number_format, x, transform, scale)
    check_transform(number_format, torch.randn(8192, 8), "in_place", scale)  # rounded by a function in Python
    assert vmap(lambda x: number_format(x, scale), in_dims=1)(x).equal(
        vmap(lambda x: number_format(x, scale))(x.t())
    )
    if scale is not None:
        scales = scale * torch.arange(1, 5)
        expected = torch.stack([number_format(*each) for each in zip(x, scales, strict=True)])
        assert vmap(number_format)(x, scales).equal(expected)


@pytest.mark.parametrize("name", [*rounding_with("rounding"), "binary"])
def test_random_rounding_under_vmap_needs_different_random_numbers(name: str) -> None:
    options: dict[str, Any] = {"stochastic": True} if name == "binary" else {"rounding": "stochastic"}
    number_format = FORMATS[name](**options)
    with pytest.raises(ValueError, match="needs randomness='different' for it, got 'error'"):
        vmap(number_format)(torch.ones(2, 8))
    x = torch.rand(8).expand(20, 8)
    y = vmap(number_format, randomness="different")(x)
    assert (y != y[0]).any()


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.bool])
def test_only_floating_point_tensors_are_rounded(name: str, dtype: torch.dtype) -> None:
    number_format, x = TRANSFORMED[name][0], torch.ones(2, 3, dtype=dtype)
    functions: list[Any] = [number_format]
    if type(number_format).__module__.startswith("chop."):  # a plug-in is asked for no more than to be called
        functions += [number_format.quantize, number_format.encode, number_format.contains]
    for function in functions:
        if function == number_format.encode and not number_format.has_codes():
            continue
        with pytest.raises(ValueError, match=f"formats round floating-point tensors, got {dtype}"):
            function(x)


@pytest.mark.parametrize("name", [name for name in WITH_CODES if FORMATS[name].rounds])
def test_integers_have_one_zero_and_floats_two(name: str) -> None:
    values = FORMATS[name]().decode(FORMATS[name]().all_codes())
    has_two = bool((values.signbit() & (values == 0)).any())
    assert has_two == (name not in {"binary", "ternary", "integer", "mxint", "block_fp"})


@pytest.mark.parametrize("name", FORMATS)
def test_storage_has_a_whole_number_of_bits_and_at_least_the_width_per_element(name: str) -> None:
    number_format = FORMATS[name]()
    assert number_format.bits >= number_format.width == number_format.precision[0]
    for shape in SHAPES:
        assert isinstance(number_format.storage_bits(shape), int)
        assert number_format.storage_bits(shape) >= number_format.width * torch.Size(shape).numel()


@pytest.mark.parametrize("name", FORMATS)
def test_default_parameters_written_in_toml_change_nothing(name: str) -> None:
    config = QuantConfig.read({"name": name}, "here")
    assert config is not None
    lines = [f'name = "{name}"']
    for role, number_format in config.formats.items():
        for parameter in parameters(type(number_format)):
            value = getattr(number_format, parameter.name)
            lines.append(f"{role}_{parameter.name} = {_toml('NA' if value is None else value)}")
    assert QuantConfig.read(tomllib.loads("\n".join(lines)), "there") == config


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("name", FORMATS)
def test_every_parameter_that_is_not_the_default_is_shown(name: str) -> None:
    others = {
        **{"is_signed": False, "rounding": "floor", "scale": "float", "granularity": "row", "element": "e5m2"},
        **{"scaling": False, "stochastic": True, "scale_rule": "ceil", "block_size": (2, 2), "threshold": 0.5},
        **{"width": 6, "exponent_width": 3, "frac_width": 1, "exponent_bias": 5, "exponent_bias_width": 4},
    }
    names = {field.name for field in parameters(FORMATS[name])}
    texts = [str(FORMATS[name]())]
    for key in sorted(names & others.keys()):
        scaled = {"scale": "float"} if key == "granularity" else {}
        texts.append(str(FORMATS[name](**{key: others[key]} | scaled)))
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("format_class", FORMATS.values(), ids=FORMATS)
def test_everything_is_documented(format_class: type[Format]) -> None:
    assert format_class.__doc__
    assert "\n" not in format_class.__doc__.strip()
    for parameter in parameters(format_class):
        assert parameter.metadata["help"]


@pytest.mark.parametrize("name", [name for name in WITH_CODES if FORMATS[name].rounds])
def test_every_code_is_a_number_and_fixed_values_are_kept(name: str) -> None:
    number_format = FORMATS[name]()
    codes = number_format.all_codes()
    assert len(codes) <= 2**number_format.width
    values = number_format.decode(codes)
    assert values.isfinite().all()
    assert number_format.decode(codes[values.sort().indices]).diff().ge(0).all()
    if not number_format.values_depend_on_data:
        assert number_format.quantize(values).equal(values)
        assert number_format.decode(*number_format.encode(values)).equal(values)


@pytest.mark.parametrize("name", rounding_with("rounding"))
def test_stochastic_rounding_depends_on_the_seed(name: str) -> None:
    number_format: Any = FORMATS[name](rounding="stochastic")  # type: ignore[call-arg]
    x = torch.randn(64, 32)
    results = [number_format.quantize(x) for seed in (3, 3, 4) if torch.manual_seed(seed)]
    assert results[0].equal(results[1])
    assert not results[0].equal(results[2])


@pytest.mark.slow
@given(numbers=st.lists(FLOATS, min_size=33, max_size=70), factor=st.floats(1e-3, 1e3))
def test_blocks_are_independent(numbers: list[float], factor: float) -> None:
    x = torch.tensor(numbers)
    changed = torch.cat([x[:16], x[16:] * factor])
    for name in rounding_with("block_size"):
        note(name)
        number_format = FORMATS[name](block_size=16)  # type: ignore[call-arg]
        # Blocks are along the second dimension.
        share_scale = not number_format.rounds_rows_independently(x.unsqueeze(0))
        if not share_scale or changed.abs().max() == x.abs().max():
            assert number_format.quantize(changed)[:16].equal(number_format.quantize(x)[:16])


def with_scales(name: str) -> list[Format]:
    """Return the format with each of its granularities, if it computes scales from data."""
    granularities = ("tensor", "channel", "row", "group") if name == "integer" else ("tensor", "channel", "row")
    options = (
        [{"scale": "float", "granularity": each, "channel_dim": 0} for each in granularities]
        if "granularity" in {field.name for field in parameters(FORMATS[name])}
        else [{}]
    )
    formats = [FORMATS[name](**each) for each in options]
    return [each for each in formats if each.scale_groups(torch.ones(2, 2)) is not None]


@pytest.mark.parametrize(
    "number_format", [each for name in ROUNDING for each in with_scales(name)], ids=lambda each: repr(each)[:60]
)
def test_elements_rounded_with_fixed_scales_are_on_the_grid_of_their_group(number_format: Format) -> None:
    x = torch.randn(6, 70)
    scales, groups = number_format.element_scales(x), number_format.scale_groups(x)
    assert groups is not None
    assert scales.shape == groups.shape == x.shape
    for group in groups.unique():
        assert len(scales[groups == group].unique()) == 1
    y = number_format.quantize_with(x, scales)
    torch.testing.assert_close(number_format.quantize_with(y, scales), y)
    columns = [number_format.quantize_with(x[:, i], scales[:, i]) for i in range(x.shape[1])]
    assert torch.stack(columns, 1).equal(y)
    if number_format.name != "ternary":  # its threshold is not half of its scale
        torch.testing.assert_close(y, number_format.quantize(x))


@pytest.mark.parametrize("name", ROUNDING)
def test_formats_whose_values_depend_on_data_say_what_shares_a_scale(name: str) -> None:
    number_format = FORMATS[name]()
    assert number_format.values_depend_on_data == (number_format.scale_groups(torch.randn(4, 40)) is not None)
