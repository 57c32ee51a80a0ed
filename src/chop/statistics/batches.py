"""A limited number of rows from an iterable of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

LabelledBatch = tuple[Mapping[str, Any], Tensor | None]
"""A batch by argument name, such as `{"x": tensor}`, and the labels of its rows if they are known."""


def limited_batches(batches: Iterable[Mapping[str, Any]], num_samples: int) -> Iterator[Mapping[str, Any]]:
    """Yield batches with `num_samples` rows in total; the last one is cut, and no further batch is drawn."""
    for inputs, _ in limited_labelled_batches(((batch, None) for batch in batches), num_samples):
        yield inputs


def limited_labelled_batches(batches: Iterable[LabelledBatch], num_samples: int) -> Iterator[LabelledBatch]:
    """Yield the first `num_samples` rows like `limited_batches`, with their labels."""
    if num_samples < 1:
        raise ValueError(f"'num_samples' must be at least 1, got {num_samples}")
    remaining = num_samples
    for inputs, labels in batches:
        if not isinstance(inputs, Mapping):
            raise ValueError(f"batches must be dicts such as {{'x': tensor}}, got {type(inputs).__name__}")
        rows = num_rows(inputs)
        taken = min(rows, remaining)
        cut = {name: _cut(value, rows, taken) for name, value in inputs.items()}
        yield cut, None if labels is None else _cut(labels, rows, taken)
        remaining -= taken
        if remaining == 0:
            return


def num_rows(inputs: Mapping[str, Any]) -> int:
    """Return the number of rows of the first tensor that has a dimension."""
    tensors = (value for value in inputs.values() if isinstance(value, Tensor) and value.ndim > 0)
    return next((len(tensor) for tensor in tensors), 1)


def _cut(value: Any, rows: int, taken: int) -> Any:
    return value[:taken] if isinstance(value, Tensor) and value.ndim > 0 and len(value) == rows else value
