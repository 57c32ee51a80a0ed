"""What happens to the operands and the result of a quantised layer or call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


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
