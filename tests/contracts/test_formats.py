"""What holds for every number format. A new file in `formats/` is tested without further edits."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, note
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from chop.formats import FORMATS, Format, parameters
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.kernels import run
from chop.nn.quantized import QuantConfig

ROUNDING = [name for name, each in FORMATS.items() if each.rounds]
WITH_CODES = [name for name, each in FORMATS.items() if each.has_codes()]


def rounding_with(parameter: str) -> list[str]:
    """Return the names of the formats that round and have a parameter."""
    return [name for name in ROUNDING if parameter in {field.name for field in parameters(FORMATS[name])}]


@pytest.fixture(autouse=True, scope="module")
def _eager_definitions() -> Iterator[None]:
    """Test the eager definitions. Compiled loops give the same bits; tests with the fixture `loops` run with both."""
    with patch.object(run.settings, "enabled", False):
        yield


OTHER_DTYPES = (torch.float64, torch.bfloat16, torch.float16)
DTYPES = [torch.float32, *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in OTHER_DTYPES)]
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (7,), (0,), (3, 0), (5, 33), (2, 3, 17), (1, 2, 3, 4))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_input_shape_and_dtype_are_kept_and_the_gradient_passes(name: str, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        x = torch.randn(shape, dtype=dtype, requires_grad=True)
        before = x.detach().clone()
        y = FORMATS[name]()(x)
        y.sum().backward()
        assert x.equal(before)
        assert (y.shape, y.dtype) == (x.shape, x.dtype), shape
        assert y.isfinite().all()
        assert x.grad is not None
        assert x.grad.equal(torch.ones_like(x))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", FORMATS)
def test_the_memory_layout_makes_no_difference(name: str) -> None:
    number_format, x = FORMATS[name](), torch.randn(40, 6)
    assert number_format.quantize(x.t()).equal(number_format.quantize(x.t().contiguous()))


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
def test_the_gradient_of_the_identity_passes_under_every_transform(name: str) -> None:
    number_format, scale = TRANSFORMED[name]
    x, v = torch.randn(3, 8), torch.randn(3, 8)
    y = number_format.quantize(x) if scale is None else number_format(x, scale)

    def rounded(x: Tensor) -> Tensor:
        return number_format(x, scale)

    for result, tangent in (jvp(rounded, (x,), (v,))[:2], forward_derivative(rounded, x, v)):
        assert result.equal(y)
        assert tangent.equal(v)
    pull: Any = vjp(rounded, x)[1]
    assert pull(v)[0].equal(v)
    eye = torch.eye(24).view(3, 8, 3, 8)
    assert jacrev(rounded)(x).equal(eye)
    assert jacfwd(rounded)(x).equal(eye)
    cubes = lambda x: rounded(x).pow(3).sum()  # noqa: E731
    expected = (6 * y).flatten().diag().view(3, 8, 3, 8)
    torch.testing.assert_close(hessian(cubes)(x), expected)
    leaf = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(cubes(leaf), leaf, create_graph=True)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(first, 3 * y.square())
    torch.testing.assert_close(torch.autograd.grad((first * v).sum(), leaf)[0], 6 * y * v)
    kept = checkpoint(rounded, leaf, use_reentrant=False)
    assert torch.autograd.grad(kept, leaf, v)[0].equal(v)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_samples_are_rounded_under_vmap_as_in_a_loop(name: str) -> None:
    number_format, scale = TRANSFORMED[name]
    x = torch.randn(4, 3, 8) * torch.tensor([0.1, 1.0, 3.0, 50.0]).view(4, 1, 1)
    expected = torch.stack([number_format(each, scale) for each in x])
    assert vmap(lambda x: number_format(x, scale))(x).equal(expected)
    assert vmap(lambda x: number_format(x, scale), in_dims=2)(x.movedim(0, 2)).equal(expected)
    squares = lambda x: number_format(x, scale).square().sum()  # noqa: E731
    assert vmap(grad(squares))(x).equal(2 * expected)
    assert grad(lambda x: vmap(squares)(x).sum())(x).equal(2 * expected)
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


def forward_derivative(function: Callable[[Tensor], Tensor], x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result and its derivative by `torch.autograd.forward_ad`, without recording gradients."""
    with torch.no_grad(), forward_ad.dual_level():
        result = forward_ad.unpack_dual(function(forward_ad.make_dual(x, v)))
        assert result.tangent is not None
        return result.primal.clone(), result.tangent.clone()


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", TRANSFORMED)
def test_results_may_be_changed_in_place(name: str) -> None:
    number_format, scale = TRANSFORMED[name]
    for rows in (4, 256 * 32):
        x = torch.randn(rows, 8, requires_grad=True)
        y = number_format(x, scale)
        y.mul_(2)
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.eq(2).all()


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


def numbers(draw_shape: tuple[int, int] = (1, 70)) -> st.SearchStrategy[Tensor]:
    floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
    return st.lists(floats, min_size=draw_shape[0], max_size=draw_shape[1]).map(lambda v: torch.tensor(v))


def rounding_twice_changes_nothing(number_format: Format, x: Tensor) -> None:
    once = number_format.quantize(x)
    twice = number_format.quantize(once)
    if number_format.is_idempotent:
        torch.testing.assert_close(twice, once, rtol=number_format.requantize_tolerance, atol=0)
    assert number_format.contains(once).all()
    assert number_format.contains(twice).all()


def quantising_keeps_the_order_of_numbers(number_format: Format, x: Tensor) -> None:
    y = number_format.quantize(x.sort().values)
    in_one_block = y[:16]  # the smallest block of any format
    assert (in_one_block.diff() >= 0).all()


def quantised_values_are_within_the_range(number_format: Format, x: Tensor) -> None:
    y = number_format.quantize(x)
    assert y.isfinite().all()
    if number_format.has_codes() and not number_format.values_depend_on_data:
        assert (y.abs() <= largest_value(number_format)).all()


@cache
def largest_value(number_format: Format) -> Tensor:
    return number_format.decode(number_format.all_codes()).abs().max()


def integers_times_scale_are_the_quantised_values(number_format: Format, x: Tensor) -> None:
    integers, scale = number_format.integers(x)
    assert not integers.is_floating_point()
    assert (integers * scale).equal(number_format.quantize(x))


def decoding_the_codes_gives_the_quantised_values(number_format: Format, x: Tensor) -> None:
    codes, scales = number_format.encode(x)
    assert not codes.is_floating_point()
    assert codes.shape == x.shape
    assert number_format.decode(codes, scales).equal(number_format.quantize(x))


def both_signs_are_quantised_alike(number_format: Format, x: Tensor) -> None:
    assert number_format.quantize(-x).equal(-number_format.quantize(x))


def compiled_loops_give_the_same_bits(number_format: Format, x: Tensor) -> None:
    expected = number_format.quantize(x)
    with patch.multiple(run.settings, enabled=True, min_numel_to_load=0):
        assert number_format.quantize(x).view(torch.int32).equal(expected.view(torch.int32))


PROMISES: dict[Callable[[Format, Tensor], None], list[str]] = {
    rounding_twice_changes_nothing: ROUNDING,
    quantising_keeps_the_order_of_numbers: ROUNDING,
    quantised_values_are_within_the_range: ROUNDING,
    integers_times_scale_are_the_quantised_values: [
        name for name in ROUNDING if FORMATS[name].integers is not Format.integers
    ],
    decoding_the_codes_gives_the_quantised_values: WITH_CODES,
    both_signs_are_quantised_alike: [name for name in ROUNDING if FORMATS[name].is_symmetric],
    compiled_loops_give_the_same_bits: ROUNDING,
}
"""What must hold for all numbers, and in which formats."""


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@given(x=numbers())
def test_promises_hold_for_all_numbers(promise: Callable[[Format, Tensor], None], x: Tensor) -> None:
    for name in PROMISES[promise]:  # in one test, because making an example takes longer than checking it
        note(name)
        promise(FORMATS[name](), x)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", ROUNDING)
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_stays_and_infinities_saturate_in_every_dtype_and_rounding(name: str, dtype: torch.dtype) -> None:
    top = torch.finfo(dtype).max
    x = torch.tensor([[1.0, torch.nan, torch.inf, -torch.inf, top, -top, 0.0]], dtype=dtype)
    choices = ("nearest_even", "nearest_away", "floor", "towards_zero", "stochastic")
    for options in [{"rounding": each} for each in choices] if name in rounding_with("rounding") else [{}]:
        number_format = FORMATS[name](**options)
        y = number_format.quantize(x)
        assert y.isnan().equal(x.isnan())
        assert y.isinf().sum() == 0
        assert y[0, 2] > 0 > y[0, 3]
        assert number_format.contains(y).equal(~y.isnan())
        assert not number_format.contains(x)[~x.isfinite()].any()
        if number_format.has_codes():
            with pytest.raises(ValueError, match="NaN cannot be encoded"):
                number_format.encode(x)


@pytest.mark.parametrize("name", [name for name in WITH_CODES if FORMATS[name].rounds])
def test_a_zero_keeps_its_sign_if_the_format_has_two_zeros(name: str) -> None:
    values = FORMATS[name]().decode(FORMATS[name]().all_codes())
    has_two = bool((values.signbit() & (values == 0)).any())
    assert has_two == (name not in {"binary", "ternary", "integer", "mxint", "block_fp"})
    x = torch.tensor([0.0, -0.0, 1e-9, -1e-9, 1e-40, -1e-40, 2.0, -2.0])
    choices = ("nearest_even", "nearest_away", "towards_zero", "stochastic") if has_two else ()
    for rounding in choices:
        number_format = FORMATS[name](rounding=rounding)  # type: ignore[call-arg]
        assert number_format.quantize(x).signbit().equal(x.signbit())
        assert number_format.decode(*number_format.encode(x)).signbit().equal(x.signbit())


@pytest.mark.parametrize("name", [name for name in WITH_CODES if FORMATS[name].rounds])
@pytest.mark.parametrize("dtype", OTHER_DTYPES)
def test_codes_and_integers_of_other_dtypes(name: str, dtype: torch.dtype) -> None:
    number_format = FORMATS[name]()
    for x in (torch.randn(5, 40, dtype=dtype), torch.full((2, 3), torch.finfo(dtype).max, dtype=dtype)):
        y = number_format.quantize(x)
        assert number_format.decode(*number_format.encode(x)).to(dtype).equal(y)
        integers, scale = number_format.integers(x)
        assert (integers * scale).to(dtype).equal(y)


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
@pytest.mark.parametrize("rounding", ["nearest_away", "floor", "towards_zero", "stochastic"])
def test_other_roundings_go_in_their_direction(name: str, rounding: str) -> None:
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


@pytest.mark.slow
@given(x=numbers((33, 70)), factor=st.floats(1e-3, 1e3))
def test_blocks_are_independent(x: Tensor, factor: float) -> None:
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
