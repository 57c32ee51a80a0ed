"""The families of loops: which loop rounds a tensor, and with which parameters."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from chop.formats.bits import LARGEST, unit_factor_of
from chop.formats.kernels.compiler import Loop
from chop.formats.kernels.run import find_loop, in_threads, is_plain, map_elements, num_parts, pack

Element = tuple[str, tuple[float, float, float]]
"""A function of `loops/elements.py` and its parameters."""
Scale = tuple[str, tuple[float, float, float, float, float, float]]
"""A function of `loops/blocks.py` and its parameters."""
_SHORT_BLOCKS = (8, 16, 32, 64)
"""Sizes with loops of their own."""
_MANTISSA, _MIN_EXPONENT = 23, -126
"""Of float32."""


class GridLike(Protocol):
    """What the loops need to know of a grid of small floats."""

    @property
    def mantissa(self) -> int: ...

    @property
    def min_exponent(self) -> int: ...

    @property
    def largest(self) -> float: ...

    def is_rounded_by_sum(self) -> bool: ...


def grid_element(rounding: str, grid: GridLike) -> Element | None:
    """Return the function that rounds to a grid."""
    smallest = 2.0**grid.min_exponent
    if rounding == "stochastic":
        return None
    if grid.mantissa == 0:
        odd = float(grid.min_exponent % 2 == 0)
        return ("power/nearest_even", (grid.largest, smallest, odd)) if rounding == "nearest_even" else None
    if rounding == "nearest_even" and grid.is_rounded_by_sum():
        return "grid_by_sum/nearest_even", (grid.largest, smallest, 1.5 * 2.0 ** (23 - grid.mantissa))
    if rounding == "nearest_even" and grid.min_exponent == _MIN_EXPONENT:
        return f"grid_by_bits/{_MANTISSA - grid.mantissa}", (grid.largest, 0.0, 0.0)
    return f"grid/{rounding}", (grid.largest, smallest, 2.0**-grid.mantissa)


def integer_element(rounding: str, low: float, high: float) -> Element | None:
    """Return the function that rounds to integers."""
    return None if rounding == "stochastic" else (f"integer/{rounding}", (low, high, 0.0))


def power_scale(
    low: float,
    high: float,
    factor: float = 1.0,
    unit: float = 1.0,
    above: float = math.inf,
    inclusive: bool = False,
) -> Scale:
    """Return the function for scales that are powers of two; see `loops/blocks.py`."""
    return "power", (factor, above, float(inclusive), low, high, unit)


def real_scale(top: float, low: float, high: float) -> Scale:
    """Return the function for scales that map the maximum to `top`, from `low` to `high`."""
    return "real", (top, 0.0, 0.0, low, high, 1.0)


def power_above(top: float, low: float, high: float, limit: float) -> Scale:
    """Return the function for the smallest powers of two, up to `limit`, that map the maximum to at most `top`."""
    return "power_above", (top, 0.0, 0.0, low, high, limit)


def tensor_scale(top: float, largest: float, tensor_top: float, low: float, high: float) -> Scale:
    """Return the function for E4M3 scales times the scale that maps the tensor's maximum to `tensor_top`."""
    return "tensor", (top, largest, tensor_top, low, high, 1.0)


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
    loop = None if element is None else find_loop(x, "on_grid", element[0])
    return None if loop is None or element is None else map_elements(loop, x, *element[1])


def round_blocks(x: Tensor, size: int, dim: int, scale: Scale, element: Element | None) -> Tensor | None:
    """Return `x` rounded in blocks of `size` along the dimension `dim`."""
    if element is None or x.dim() == 0:
        return None
    n = x.shape[dim]
    loop = _rows_loop(x, n, min(size, n), scale[0], element[0])
    if loop is None:
        return None
    y, inner, is_last = torch.empty_like(x), 1, dim == x.dim() - 1
    if not (is_last and x.is_contiguous()) and not (
        x.movedim(dim, -1).is_contiguous() and y.movedim(dim, -1).is_contiguous()
    ):
        if is_last:
            x = y = x.clone(memory_format=torch.contiguous_format)
        elif x.is_contiguous():
            inner, loop = math.prod(x.shape[dim + 1 :]), find_loop(x, "columns", scale[0], element[0])
        else:
            return None
    return None if loop is None else _by_rows(loop, x, y, (n, inner, min(size, n)), pack((*scale[1], *element[1])))


def _rows_loop(x: Tensor, n: int, size: int, scale: str, element: str) -> Loop | None:
    if n % (size or 1):
        return find_loop(x, "ragged_rows", scale, element)
    return find_loop(x, "rows", scale, element, str(size) if size in _SHORT_BLOCKS else "any")


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
    loop = None if element is None else find_loop(x, "scaled", "real", element[0])
    if loop is None or element is None:
        return None
    given = real_scale(1.0, scale.item(), scale.item())
    return map_elements(loop, x, *given[1], *element[1], 1.0)


def round_tensor(x: Tensor, scale: Scale, element: Element | None) -> Tensor | None:
    """Return `x` rounded with one scale, which follows from its largest magnitude."""
    loop = None if element is None else find_loop(x, "scaled", scale[0], element[0])
    largest = None if loop is None else largest_magnitude(x)
    if loop is None or element is None or largest is None:
        return None
    return map_elements(loop, x, *scale[1], *element[1], largest)


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
    parameters = (ctypes.c_float * 6)(unit_factor_of(1.0, numel), *_as_sum(threshold or 0.0), scaling, 0.0)
    loop(x.data_ptr(), y.data_ptr(), 1, numel, 1, 1, parameters)
    return y if parameters[5] else None


@lru_cache
def _as_sum(number: float) -> tuple[float, float, float]:
    """Return three float32 numbers whose sum is a double, unless it is beyond their range."""
    high = ctypes.c_float(number).value
    middle = ctypes.c_float(number - high).value
    return high, middle, ctypes.c_float(number - high - middle).value


def _mean_above(x: Tensor, largest: float, limit: float = -1.0) -> float | None:
    """Return the mean of the magnitudes above `limit`, as `chop.formats.bits.sum_of_magnitudes` adds them.

    `largest` is the largest of all magnitudes.
    """
    loop, factor = find_loop(x, "sum_above", "magnitude"), unit_factor_of(largest, x.numel())
    if loop is None or factor > LARGEST:
        return None
    parts = _reduced(loop, x, 5, factor, limit)
    units = math.fsum(number for part in parts for number in part[:3])
    count = sum(int(part[3]) * 2**24 + int(part[4]) for part in parts)
    return units / factor / max(count, 1)


def _with_signs(x: Tensor, scale: float, limit: float | None) -> Tensor | None:
    """Return the signs of `x` times a scale; with a limit, 0 for magnitudes up to it."""
    loop = find_loop(x, "signs", "binary" if limit is None else "ternary")
    return None if loop is None else map_elements(loop, x, 0.0 if limit is None else limit, scale)


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
