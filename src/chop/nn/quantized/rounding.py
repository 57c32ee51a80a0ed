"""How quantised layers and calls round operands and results, also in part while rounding is phased in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from chop.formats import Format
from chop.nn.quantized.compiled import round_compiled

_share = 1.0


@contextmanager
def rounding_share(share: float) -> Iterator[None]:
    """Let all quantised layers and calls use `x + share * (rounded - x)`: 0 is float, 1 rounds as usual."""
    global _share  # not a ContextVar, which torch.compile cannot read
    before, _share = _share, share
    try:
        yield
    finally:
        _share = before


def is_partial() -> bool:
    """Whether values are rounded in part only."""
    return _share < 1


def rounded_to(number_format: Format, value: Tensor, scale: Tensor | None, is_compiled: bool) -> Tensor:
    """Return a rounded value, or one between it and the original while rounding is phased in."""
    rounded = round_compiled(value, number_format, scale) if is_compiled else number_format(value, scale)
    return rounded if _share >= 1 else torch.lerp(value, rounded, _share)


def round_first(rounded: Callable[[Tensor], Tensor], result: Any) -> Any:
    """Return a result with its tensor, or the first of a tuple, rounded; integers such as indices are unchanged."""
    if isinstance(result, tuple):
        items = (round_first(rounded, result[0]), *result[1:])
        return items if type(result) is tuple else type(result)(items)  # torch.max returns a named tuple
    return rounded(result) if isinstance(result, Tensor) and has_numbers(result) else result


def has_numbers(x: Tensor) -> bool:
    """Whether `x` has numbers and not, for example, indices; formats refuse complex numbers."""
    return x.is_floating_point() or x.is_complex()


def written_back(result: Tensor, overwritten: Tensor) -> Tensor:
    """Return the result of an in-place op after writing it into the tensor that the op overwrites."""
    return overwritten if result is overwritten else overwritten.copy_(result)
