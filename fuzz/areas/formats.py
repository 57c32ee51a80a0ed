"""Random number formats on difficult tensors: what `chop.formats.Format` and docs/formats.md promise."""

from __future__ import annotations

import math
import re
import types
import warnings
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal, Union, get_args, get_origin
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, func
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from chop.formats import FORMATS, Format, parameters
from chop.formats.integer import Integer
from chop.formats.kernels.run import settings
from chop.formats.mixed_integer import MAX_WIDTH, MixedInteger
from chop.formats.parts.base import Scales
from chop.options import type_hints

TIME_LIMIT = 120.0  # on a busy machine, Numba compiles for long
Case = dict[str, Any]

DTYPES = ("float32", "float32", "float32", "float64", "bfloat16", "float16")
OTHER_DTYPES = ("complex64", "complex128", "int64", "int8", "uint8", "bool")
SHAPES = ((), (0,), (1,), (3, 0), (7,), (64,), (33, 5), (4, 40), (2, 3, 17), (2, 4, 3, 5), (1, 1, 1))
LARGE = (128, 600)
"""More elements than the compiled loops need to be loaded."""
TRANSFORMS = ("jvp", "forward_ad", "vjp", "grad", "vmap", "vmap_grad", "grad_vmap", "checkpoint", "in_place")
JACOBIANS = ("jacrev", "jacfwd", "hessian", "double_backward")
MAX_JACOBIAN_NUMEL = 70
LAYOUTS = ("contiguous", "contiguous", "transposed", "strided", "expanded", "channels_last", "offset")
KINDS = (
    "normal",
    "normal",
    "scaled",
    "log_normal",
    "bits",
    "ties",
    "powers",
    "integers",
    "constant",
    "zeros",
    "tiny",
)
SPECIALS = ("none", "none", "none", "nan", "inf", "mixed", "extremes")
INTEGERS = (1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 12, 14, 16, 19, 22, 23, 24, 25, 31, 32)
OTHERS = (-126, -100, -20, -5, -2, -1, 0, 15, 40, 127)


def prepare() -> None:
    """Load what forward-mode derivatives and checkpoints need: torch warns of its own calls."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore")
        forward_ad.make_dual(torch.zeros(1), torch.zeros(1))
        checkpoint(torch.sin, torch.zeros(1), use_reentrant=False)


def draw(random: Random) -> Case:
    """Draw a format with valid parameters, and how to make a tensor."""
    name = random.choice([name for name in FORMATS if FORMATS[name].rounds])
    shape = random.choice(SHAPES) if random.random() < 0.96 else LARGE
    while True:
        chosen = _parameters(random, FORMATS[name], shape)
        try:
            FORMATS[name](**chosen)
            break
        except ValueError:
            continue  # out of range
    return {
        "format": name,
        "parameters": chosen,
        "dtype": random.choice(DTYPES if random.random() < 0.95 else OTHER_DTYPES),
        "transform": random.choice((*TRANSFORMS, *JACOBIANS)),
        "flush_denormal": random.random() < 0.1,
        "shape": shape,
        "layout": random.choice(LAYOUTS),
        "kind": random.choice(KINDS),
        "special": random.choice(SPECIALS),
        "seed": random.randrange(2**31),
    }


def check(case: Case, folder: Path) -> None:
    """Check every property that applies to the case."""
    number_format: Any = FORMATS[case["format"]](**case["parameters"])
    if case["dtype"] in OTHER_DTYPES:
        _check_refused(number_format, torch.ones(case["shape"], dtype=getattr(torch, case["dtype"])))
        return
    x = make_tensor(case)
    if case["flush_denormal"]:
        _check_flushed(number_format, x)
    check_transform(number_format, x, case["transform"])
    check_numbers(number_format, x)


def check_numbers(number_format: Any, x: Tensor) -> None:
    """Check what a format promises for all numbers."""
    before, y = x.clone(), number_format.quantize(x)
    assert (y.shape, y.dtype) == (x.shape, x.dtype), "shape or dtype changed"
    assert _same(x, before), "the input was changed"
    assert x.numel() == 0 or y.data_ptr() != x.data_ptr(), "the result shares the memory of the input"
    assert y.isnan().equal(x.isnan()), "NaN does not stay where it is"
    assert not y.isinf().any(), "the result is infinite"
    on_grid = number_format.contains(y)
    assert on_grid.equal(~y.isnan()), f"{y[~on_grid & ~y.isnan()][:3].tolist()} are not contained"
    own = number_format.contains(x)
    assert (own.shape, own.dtype) == (x.shape, torch.bool)
    assert not own[~x.isfinite()].any(), "NaN or an infinity is contained"
    _check_gradient(number_format, x)
    _check_direction(number_format, x, y)
    if number_format.is_repeatable:
        _check_loops(number_format, x)
        plain = number_format.quantize(x.contiguous().clone())
        assert _same(plain, y, number_format), "the memory layout makes a difference"
        _check_repeated(number_format, x, y)
        _check_codes(number_format, x, y)
        _check_zeros(number_format, x, y)
        if isinstance(number_format, MixedInteger):
            _check_elements(number_format, x, y)
        else:
            _check_order(number_format, x)


def make_tensor(case: Case) -> Tensor:
    """Return the tensor of a case."""
    generator = torch.Generator().manual_seed(case["seed"])
    layout, shape = case["layout"], tuple(case["shape"])
    if layout == "transposed" and len(shape) > 1:
        return _values(case, shape[::-1], generator).permute(*range(len(shape) - 1, -1, -1))
    if layout == "strided" and shape:
        return _values(case, (*shape[:-1], 2 * shape[-1]), generator)[..., ::2]
    if layout == "expanded" and len(shape) > 1:
        return _values(case, (1, *shape[1:]), generator).expand(shape)
    if layout == "channels_last" and len(shape) == 4:
        return _values(case, shape, generator).to(memory_format=torch.channels_last)
    if layout == "offset" and len(shape) == 1:
        return _values(case, (shape[0] + 3,), generator)[3:]
    return _values(case, shape, generator)


def _values(case: Case, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    dtype = getattr(torch, case["dtype"])
    normal = torch.randn(shape, generator=generator, dtype=torch.float64)
    exponents = torch.randint(-160, 130, shape, generator=generator)
    match case["kind"]:
        case "scaled":
            x = normal * 2.0 ** exponents.flatten()[:1].sum()
        case "log_normal":
            x = normal.sign() * torch.exp(4 * torch.randn(shape, generator=generator, dtype=torch.float64))
        case "bits":
            x = torch.randint(-(2**31), 2**31, shape, generator=generator).int().view(torch.float32).double()
            x = x.nan_to_num(nan=1.0, posinf=3e38, neginf=-3e38)
        case "ties":
            x = (torch.randint(-300, 300, shape, generator=generator) + 0.5) * 2.0 ** (exponents % 5 - 8)
        case "powers":
            x = normal.sign() * 2.0**exponents * (1 + (exponents % 3 - 1) * 2.0**-23)
        case "integers":
            x = torch.randint(-200, 200, shape, generator=generator).double()
        case "constant":
            x = torch.full(shape, torch.randn((), generator=generator).item())
        case "tiny":
            x = -normal.abs() * 2.0 ** (exponents.abs() - 150).clamp(max=-20)
        case "zeros":
            x = torch.zeros(shape) * normal.sign()
        case _:
            x = normal
    top = torch.finfo(dtype).max
    return _with_specials(x.double().clamp(-top, top).to(dtype), case["special"], generator)


def _with_specials(x: Tensor, special: str, generator: torch.Generator) -> Tensor:
    info = torch.finfo(x.dtype)
    extremes = [info.max, -info.max, info.tiny, info.smallest_normal / 2, -0.0, -info.tiny]
    inserted = {
        "none": [],
        "nan": [torch.nan],
        "inf": [torch.inf, -torch.inf],
        "mixed": [torch.nan, torch.inf, *extremes],
        "extremes": extremes,
    }[special]
    if not inserted or x.numel() == 0:
        return x
    count = max(1, x.numel() // 6)
    places = torch.randint(x.numel(), (count,), generator=generator)
    chosen = torch.randint(len(inserted), (count,), generator=generator)
    x = x.clone()
    x.view(-1)[places] = torch.tensor(inserted, dtype=x.dtype)[chosen]
    return x


def _parameters(random: Random, format_class: type[Format], shape: tuple[int, ...]) -> dict[str, Any]:
    """Draw parameters for a tensor of this shape; some combinations are out of range."""
    hints = type_hints(format_class)
    names = [field.name for field in parameters(format_class) if random.random() < 0.6]
    by_element = _widths(random, shape) if format_class is MixedInteger else {}
    return {name: _parameter(random, name, hints[name]) for name in names if name not in by_element} | by_element


def _widths(random: Random, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Draw widths for some of the last dimensions of a tensor, each of which may share its widths."""
    own = tuple(random.choice((1, size)) for size in shape[random.randint(0, len(shape)) :])
    size = math.prod(own)
    widths = tuple(random.choice((0, *(each for each in INTEGERS if each <= MAX_WIDTH))) for _ in range(size))
    fractions = tuple(random.choice((*INTEGERS, -96, -20, -1, 0, 40, 100)) for _ in range(size))
    return {"widths": widths, "frac_widths": fractions, "shape": own}


def _parameter(random: Random, name: str, hint: Any) -> Any:
    if name in ("block_dim", "channel_dim"):
        return random.choice((None, -1, 0, 1, -2))
    if name in ("block_size", "group_size"):
        tiles = ((1, 4), (2, 2), (3,)) if name == "block_size" else ()
        return random.choice((1, 2, 3, 5, 8, 16, 32, 100, *tiles))
    if get_origin(hint) is Literal:
        return random.choice(get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return random.choice((*INTEGERS, *OTHERS))
    if hint is bool:
        return random.random() < 0.5
    return random.choice(INTEGERS) if hint is int else random.choice((0.0, 0.3, 0.7, 1.0, 1.6))


def _same(left: Tensor, right: Tensor, number_format: Format | None = None) -> bool:
    """Whether tensors are equal, NaN included; -0 equals 0. A mean of float64 numbers depends on their order."""
    equal = (left == right) | (left.isnan() & right.isnan())
    if number_format is not None and right.dtype is torch.float64:
        equal |= number_format.same(left, right)
    return bool(equal.all())


def _check_gradient(number_format: Format, x: Tensor) -> None:
    leaf = x.detach().clone().requires_grad_()
    number_format(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.equal(torch.ones_like(leaf)), "the gradient is not passed on"


def _check_refused(number_format: Format, x: Tensor) -> None:
    for function in (number_format, number_format.quantize):
        try:
            function(x)
        except ValueError:
            continue
        assert not x.numel(), f"{x.dtype} is rounded"


def _check_flushed(number_format: Format, x: Tensor) -> None:
    """Compiled loops give the bits of the eager definitions where torch flushes subnormal numbers, too."""
    torch.set_flush_denormal(True)
    try:
        if number_format.is_repeatable:
            _check_loops(number_format, x)
    finally:
        torch.set_flush_denormal(False)


def check_transform(number_format: Format, x: Tensor, name: str, scale: Tensor | None = None) -> None:
    """Every transform of torch sees the identity, and rounds as outside of it."""
    torch.manual_seed(0)
    x = x.clone() if 0 in x.stride() else x  # torch makes no dual numbers of elements that share their memory
    v, leaf = torch.randn_like(x), x.clone().requires_grad_()
    eye = (
        torch.eye(x.numel(), dtype=x.dtype).view((*x.shape, *x.shape)) if x.numel() <= MAX_JACOBIAN_NUMEL else None
    )
    result, derivative, expected = None, v, v

    def rounded(x: Tensor) -> Tensor:
        return number_format(x, scale)

    def weighted(x: Tensor) -> Tensor:
        return (rounded(x) * v).sum()

    def squares(x: Tensor) -> Tensor:
        return rounded(x).square().sum()

    match name:
        case "jvp":
            result, derivative, *_ = func.jvp(rounded, (x,), (v,))
        case "forward_ad":
            with torch.no_grad(), forward_ad.dual_level():
                result, derivative = forward_ad.unpack_dual(rounded(forward_ad.make_dual(x, v)))
        case "vjp":
            result, pull, *_ = func.vjp(rounded, x)
            (derivative,) = pull(v)
        case "grad":
            derivative = func.grad(weighted)(x)
        case "checkpoint":
            result = checkpoint(rounded, leaf, use_reentrant=False)
            (derivative,) = torch.autograd.grad(result, leaf, v)
        case "in_place":
            (derivative,) = torch.autograd.grad(rounded(leaf).mul_(2), leaf, v)
            expected = 2 * v
        case "vmap" | "vmap_grad" | "grad_vmap":
            _check_vmap(number_format, x, v, name, scale)
        case _ if eye is None:
            return
        case "jacrev" | "jacfwd":
            derivative, expected = getattr(func, name)(rounded)(x), eye
        case "hessian" if number_format.is_repeatable:
            derivative, expected = func.hessian(squares)(x), 2 * eye
        case "double_backward":
            (first,) = torch.autograd.grad(squares(leaf), leaf, create_graph=True)
            (derivative,) = torch.autograd.grad(first, leaf, v)
            expected = 2 * v
            if number_format.is_repeatable:
                assert _same(first.detach(), 2 * rounded(x), number_format), "the derivative of squares is wrong"
    assert derivative.equal(expected), f"the derivative by {name} is not that of the identity"
    if result is not None and number_format.is_repeatable:
        assert _same(result.detach(), rounded(x), number_format), f"{name} rounds differently"


def _check_vmap(number_format: Format, x: Tensor, v: Tensor, name: str, scale: Tensor | None) -> None:
    """Samples are rounded as in a loop, or refused as there."""

    def rounded(x: Tensor) -> Tensor:
        return number_format(x, scale)

    def weighted(x: Tensor, v: Tensor) -> Tensor:
        return (rounded(x) * v).sum()

    def run() -> Any:
        if name == "vmap":
            return func.vmap(rounded, randomness="different")(x)
        if name == "vmap_grad":
            return func.vmap(func.grad(weighted), randomness="different")(x, v)
        return func.grad(lambda x: func.vmap(weighted, randomness="different")(x, v).sum())(x)

    if not x.dim():
        return
    try:
        samples = [rounded(each) for each in x]
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            run()
        return
    y = run()
    assert y.shape == x.shape
    if name != "vmap":
        assert y.equal(v), "the gradient is not passed on"
    elif samples and number_format.is_repeatable:
        assert _same(y, torch.stack(samples), number_format), "vmap rounds differently from a loop over the samples"


def _check_zeros(number_format: Format, x: Tensor, y: Tensor) -> None:
    """Where a format has two zeros, their sign is that of the number, also in codes."""
    if not number_format.has_codes() or number_format.width > 12 or number_format.is_repeatable is False:
        return
    values = number_format.decode(number_format.all_codes())
    if (values.signbit() & (values == 0)).any():
        numbers = ~x.isnan()
        assert y.signbit()[numbers].equal(x.signbit()[numbers]), "a zero does not keep its sign"
        if not x.isnan().any():
            decoded = number_format.decode(*number_format.encode(x)).to(x.dtype)
            assert decoded.signbit().equal(y.signbit()), "codes do not keep the sign of a zero"


def _check_loops(number_format: Format, x: Tensor) -> None:
    """Compiled loops give the same bits as the eager definitions."""
    with patch.multiple(settings, enabled=True, min_numel_to_load=0):
        compiled = number_format.quantize(x)
    with patch.object(settings, "enabled", False):
        eager = number_format.quantize(x)
    assert _same(compiled, eager), "the compiled loop rounds differently"
    assert (compiled.signbit() == eager.signbit())[~eager.isnan()].all(), "the compiled loop has other signs of 0"


def _check_repeated(number_format: Format, x: Tensor, y: Tensor) -> None:
    again = number_format.quantize(y)
    is_exact = number_format.requantize_tolerance == 0 or x.dtype in (torch.float32, torch.float64)
    if number_format.is_idempotent and is_exact:
        kept = number_format.same(again, y) | y.isnan()
        assert kept.all(), f"{y[~kept][:3].tolist()} rounded again become {again[~kept][:3].tolist()}"
    if x.dim() and len(x) and number_format.rounds_rows_independently(x):
        assert _same(number_format.quantize(x[:1]), y[:1]), "rows are not rounded independently"
    default = type(number_format)()
    if type(number_format).is_symmetric and getattr(number_format, "rounding", "") != "floor":
        assert _same(number_format.quantize(-x), -y), "both signs are not rounded alike"
        assert _same(default.quantize(-x), -default.quantize(x))


def _check_codes(number_format: Format, x: Tensor, y: Tensor) -> None:
    has_integers = type(number_format).integers is not Format.integers
    if x.isnan().any():
        for convert in (number_format.encode, *([number_format.integers] if has_integers else [])):
            try:
                convert(x)
            except ValueError:
                continue
            raise AssertionError("NaN has a code")
        return
    if type(number_format).encode is not Format.encode:  # a format need not define codes
        codes, scales = number_format.encode(x)
        assert codes.shape == x.shape
        assert not codes.is_floating_point()
        _check_code_range(number_format, codes, scales)
        decoded = number_format.decode(codes, scales).to(x.dtype)
        assert _same(decoded, y), (
            f"decode(encode) is {decoded[decoded != y][:3].tolist()}, not {y[decoded != y][:3].tolist()}"
        )
    if has_integers:
        integers, scale = number_format.integers(x)
        assert not integers.is_floating_point()
        assert _same((integers * scale).to(x.dtype), y), "integers * scale is not the rounded tensor"


def _check_code_range(number_format: Format, codes: Tensor, scales: Scales) -> None:
    for scale in scales:
        assert scale.isfinite().all(), "a scale is not finite"
    if codes.numel() and number_format.width <= 12:
        assert torch.isin(codes, number_format.all_codes()).all(), "a code is not one of all codes"


def _check_order(number_format: Format, x: Tensor) -> None:
    """Numbers that share a scale keep their order."""
    size = getattr(number_format, "block_size", getattr(number_format, "group_size", x.numel()))
    count = size if isinstance(size, int) else size[-1]
    numbers = x.flatten()[:count]
    y = number_format.quantize(numbers[~numbers.isnan()].sort().values)
    assert (y.diff() >= 0).all(), "the order of numbers changes"


def _check_elements(number_format: MixedInteger, x: Tensor, y: Tensor) -> None:
    """Each element is rounded as `integer` of its width does, and is 0 with 0 bits."""
    widths, fractions = (
        torch.tensor(each, dtype=torch.int64).reshape(number_format.shape).expand(x.shape)
        for each in (number_format.widths, number_format.frac_widths)
    )
    assert number_format.storage_bits(x.shape) == widths.sum(), "the bits are not those of all elements"
    for width, fraction in set(zip(widths.flatten().tolist(), fractions.flatten().tolist(), strict=True)):
        chosen = (widths == width) & (fractions == fraction)
        options: dict[str, Any] = {"is_signed": number_format.is_signed, "rounding": number_format.rounding}
        numbers = x[chosen].nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        alone = Integer(width, fraction, **options).quantize(numbers) if width else torch.zeros_like(numbers)
        assert _same(y[chosen].nan_to_num(nan=0.0), alone), (
            f"not rounded as {width} bits with {fraction} fraction bits"
        )


def _check_direction(number_format: Any, x: Tensor, y: Tensor) -> None:
    """Rounding to nearest is never worse than truncation; the others go in their direction, or saturate."""
    rounding = getattr(number_format, "rounding", None)
    if rounding is None:
        return
    slack = (number_format.requantize_tolerance + torch.finfo(x.dtype).eps) * x.abs()
    finite = x.isfinite()
    truncated = replace(number_format, rounding="towards_zero").quantize(x)
    assert (truncated.abs() <= x.abs() + slack)[finite].all(), "rounded towards zero, a number becomes larger"
    if rounding in ("nearest_even", "nearest_away"):
        assert ((y - x).abs() <= (truncated - x).abs() + slack)[finite].all(), "not the nearest value"
    if rounding == "floor":
        below = (y <= x + slack) | (y.abs() <= x.abs())  # saturated, above a very negative number
        assert below[finite].all(), "rounded down, a number becomes larger"
