"""The families of loops: which loop rounds a tensor, and with which parameters."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from chop.formats.kernels.compiler import Loop
from chop.formats.kernels.loops.parameters import ElementParameters, ScaleParameters
from chop.formats.kernels.run import find_loop, in_threads, is_plain, map_elements, num_parts, pack

_SHORT_BLOCKS = (8, 16, 32, 64)
"""Sizes with loops of their own."""


class Element(NamedTuple):
    """How a loop rounds one number: a function of `loops/elements.py`, and its parameters."""

    function: str
    parameters: ElementParameters


class Scale(NamedTuple):
    """How a loop computes a scale from a maximum: a function of `loops/blocks.py`, and its parameters."""

    function: str
    parameters: ScaleParameters


def integer_element(rounding: str, low: float, high: float) -> Element | None:
    """Return how a loop rounds to integers."""
    return None if rounding == "stochastic" else Element(f"integer/{rounding}", ElementParameters(low, high))


def round_fixed_point(x: Tensor, rounding: str, factor: float, low: float, high: float) -> Tensor | None:
    """Return x * factor, rounded to integers from `low` to `high`, divided by factor."""
    loop = None if rounding == "stochastic" else find_loop(x, "fixed_point", rounding)
    return None if loop is None else map_elements(loop, x, factor, low, high, 1 / factor)


def round_columns(x: Tensor, rounding: str, table: Tensor) -> Tensor | None:
    """Return `x` in fixed point; the table has factors, lowest and highest integers and 1 / factors.

    Each of these four has a shape that is broadcast to the last dimensions of `x`.
    """
    loop = None if rounding == "stochastic" else find_loop(x, "fixed_point_columns", rounding)
    if loop is None or not x.is_contiguous():
        return None
    rows = table.expand(4, *x.shape[x.dim() - table.dim() + 1 :]).reshape(4, -1)
    return _by_rows(loop, x, torch.empty_like(x), (rows.shape[1], 1, 1), rows.data_ptr())


def round_on_grid(x: Tensor, element: Element | None) -> Tensor | None:
    """Return each number of `x` rounded to an element."""
    loop = None if element is None else find_loop(x, "on_grid", element.function)
    return None if loop is None or element is None else map_elements(loop, x, *element.parameters)


def round_blocks(x: Tensor, size: int, dim: int, scale: Scale, element: Element | None) -> Tensor | None:
    """Return `x` rounded in blocks of `size` along the dimension `dim`."""
    if element is None or x.dim() == 0:
        return None
    n = x.shape[dim]
    size = min(size, n)
    functions = (scale.function, element.function)
    if n % (size or 1):
        loop = find_loop(x, "ragged_rows", *functions)
    else:
        loop = find_loop(x, "rows", *functions, str(size) if size in _SHORT_BLOCKS else "any")
    if loop is None:
        return None
    y, inner, is_last = torch.empty_like(x), 1, dim == x.dim() - 1
    if not (is_last and x.is_contiguous()) and not (
        x.movedim(dim, -1).is_contiguous() and y.movedim(dim, -1).is_contiguous()
    ):
        if is_last:
            x = y = x.clone(memory_format=torch.contiguous_format)
        elif x.is_contiguous():
            inner, loop = math.prod(x.shape[dim + 1 :]), find_loop(x, "columns", *functions)
        else:
            return None
    if loop is None:
        return None
    return _by_rows(loop, x, y, (n, inner, size), pack((*element.parameters, *scale.parameters)))


def _by_rows(loop: Loop, x: Tensor, y: Tensor, sizes: tuple[int, int, int], parameters: object) -> Tensor:
    """Run a loop over rows of sizes[0] * sizes[1] elements."""
    source, target = x.data_ptr(), y.data_ptr()
    length = sizes[0] * sizes[1]

    def run(begin: int, end: int) -> None:
        offset = 4 * length * begin
        loop(source + offset, target + offset, end - begin, *sizes, parameters)

    in_threads(run, x.numel() // length, x.numel())
    return y


def round_with_scale(x: Tensor, scale: Tensor, element: Element | None) -> Tensor | None:
    """Return x / scale rounded to elements, times scale, which is one number."""
    loop = None if element is None else find_loop(x, "scaled", "real", element.function)
    if loop is None or element is None:
        return None
    fixed = ScaleParameters(low=scale.item(), high=scale.item())
    return map_elements(loop, x, *element.parameters, *fixed, 1.0)


def round_tensor(x: Tensor, scale: Scale, element: Element) -> Tensor | None:
    """Return `x` rounded with one scale, which follows from its largest magnitude."""
    loop = find_loop(x, "scaled", scale.function, element.function)
    largest = None if loop is None else largest_magnitude(x)
    if loop is None or largest is None:
        return None
    return map_elements(loop, x, *element.parameters, *scale.parameters, largest)


def largest_magnitude(x: Tensor) -> float | None:
    """Return the largest magnitude in `x`; NaN counts as 0, an infinity as the largest float32."""
    loop = find_loop(x, "maximum", "magnitude")
    return None if loop is None or not _is_dense(x) else max(each[0] for each in _reduced(loop, x, 1))


def _is_dense(x: Tensor) -> bool:
    """Whether the elements of `x`, in some order, are all that its memory holds."""
    return x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last)


def round_to_signs(x: Tensor, scaling: bool, threshold: float | None = None) -> Tensor | None:
    """Return the signs of `x` times a scale: its mean magnitude, or 1 without `scaling`.

    With a threshold, magnitudes up to this fraction of the mean become 0, and the scale is the mean of the others.
    """
    if not is_plain(x):  # torch.compile traces what follows, up to the first loop that is not found
        return None
    if threshold is None and not scaling:
        return _with_signs(x, 1.0, None)
    if num_parts(x.numel(), x.numel()) < 2 and sum(_as_sum(threshold or 0.0)) == (threshold or 0.0):
        return _in_one_call(x, scaling, threshold)
    largest = largest_magnitude(x)
    mean = None if largest is None else _mean_above(x, largest)
    if largest is None or mean is None:
        return None
    if threshold is None:
        return _with_signs(x, mean, None)
    limit = mean * threshold
    scale = _mean_above(x, largest, limit) if scaling else 1.0
    return None if scale is None else _with_signs(x, scale, limit)


def _in_one_call(x: Tensor, scaling: bool, threshold: float | None) -> Tensor | None:
    loop = find_loop(x, "mean_signs", "binary" if threshold is None else "ternary")
    if loop is None or not _is_dense(x):
        return None
    y, numel = torch.empty_like(x), x.numel()
    parameters = (ctypes.c_float * 6)(_unit_factor(1.0, numel), *_as_sum(threshold or 0.0), scaling, 0.0)
    loop(x.data_ptr(), y.data_ptr(), 1, numel, 1, 1, parameters)
    return y if parameters[5] else None


@lru_cache
def _as_sum(number: float) -> tuple[float, float, float]:
    """Return three float32 numbers whose sum is a double, unless it is beyond their range."""
    high = ctypes.c_float(number).value
    middle = ctypes.c_float(number - high).value
    return high, middle, ctypes.c_float(number - high - middle).value


def _mean_above(x: Tensor, largest: float, limit: float = -1.0) -> float | None:
    """Return the mean of the magnitudes above `limit`, as `chop.formats.parts.bits.sum_of_magnitudes` adds them.

    `largest` is the largest of all magnitudes.
    """
    loop, factor = find_loop(x, "sum_above", "magnitude"), _unit_factor(largest, x.numel())
    if loop is None or factor > torch.finfo(torch.float32).max:
        return None
    parts = _reduced(loop, x, 5, factor, limit)
    units = math.fsum(number for part in parts for number in part[:3])
    count = sum(int(part[3]) * 2**24 + int(part[4]) for part in parts)
    return units / factor / max(count, 1)


def _with_signs(x: Tensor, scale: float, limit: float | None) -> Tensor | None:
    """Return the signs of `x` times a scale; with a limit, 0 for magnitudes up to it."""
    loop = find_loop(x, "signs", "binary" if limit is None else "ternary")
    return None if loop is None else map_elements(loop, x, 0.0 if limit is None else limit, scale)


def _unit_factor(top: float, count: int) -> float:
    """Return `chop.formats.parts.bits.unit_factor` of one number, or what is beyond float32."""
    power = math.ldexp(1.0, math.frexp(top)[1] - 1) if top > 0 else 1.0
    return 2.0 ** (52 - math.ceil(math.log2(count))) / power


def _reduced(loop: Loop, x: Tensor, size: int, *parameters: float) -> list[list[float]]:
    """Return the results of a loop that reduces a contiguous tensor to `size` numbers, one list per thread."""
    source, packed = x.data_ptr(), pack(parameters)
    found: list[list[float]] = []

    def run(begin: int, end: int) -> None:
        results = (ctypes.c_float * size)()
        loop(source + 4 * begin, ctypes.addressof(results), 1, end - begin, 1, 1, packed)
        found.append(list(results))

    in_threads(run, x.numel(), x.numel())
    return found
