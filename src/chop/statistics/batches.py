"""As many rows of some batches as are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

LabelledBatch = tuple[Mapping[str, Any], Tensor | None]
"""A batch by argument name, such as `{"x": tensor}`, and the classes of its rows if they are known."""


def limited(batches: Iterable[LabelledBatch], num_samples: int) -> Iterator[LabelledBatch]:
    """Batches of `num_samples` rows in all, the last one cut; no more are drawn than that takes."""
    if num_samples < 1:
        raise ValueError(f"'num_samples' must be at least 1, got {num_samples}")
    wanted = num_samples
    for inputs, labels in batches:
        if not isinstance(inputs, Mapping):
            raise ValueError(f"batches must be dicts such as {{'x': tensor}}, got a {type(inputs).__name__}")
        rows = num_rows(inputs)
        taken = min(rows, wanted)
        cut = {name: _cut(value, rows, taken) for name, value in inputs.items()}
        yield cut, None if labels is None else _cut(labels, rows, taken)
        wanted -= taken
        if wanted == 0:
            return


def num_rows(inputs: Mapping[str, Any]) -> int:
    """That of the first tensor; others may have no dimension of rows."""
    tensors = (value for value in inputs.values() if isinstance(value, Tensor) and value.ndim > 0)
    return next((len(tensor) for tensor in tensors), 1)


def _cut(value: Any, rows: int, taken: int) -> Any:
    return value[:taken] if isinstance(value, Tensor) and value.ndim > 0 and len(value) == rows else value
