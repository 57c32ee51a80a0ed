"""The sizes of inputs that a captured graph takes, and the errors for other sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx

CAPTURED_SIZES = "captured_sizes"
"""The key of `CapturedSizes` in the `meta` of an input of an exported graph."""

_ADVICE = "capture the model again with example_inputs of the new sizes, or pad or cut the input"


@dataclass(frozen=True)
class CapturedSizes:
    """The shape that an input had during the capture, and the lengths and rows that the graph takes."""

    shape: tuple[int, ...]
    least: int = 0
    """The smallest size of axis 1 of an input [rows, length] or [rows, length, size]."""
    most: int | None = None
    """The largest size; None means no limit."""
    least_rows: int = 0
    """The smallest size of axis 0."""
    most_rows: int | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise an error if the graph may compute something else than the model for an input of this size."""
        if not isinstance(value, Tensor) or value.dim() != len(self.shape):
            return
        allowed = ""
        if value.dim() > 1 and not _is_between(value.shape[1], self.least, self.most):
            is_fixed = self.least == self.most
            length = f"its length must be {_shown_range(self.least, self.most)}"
            allowed = "only its first size may differ" if is_fixed else length
        elif value.dim() and not _is_between(len(value), self.least_rows, self.most_rows):
            allowed = f"its first size must be {_shown_range(self.least_rows, self.most_rows)}"
        if allowed:
            raise ValueError(
                f"input '{name}' has the shape {list(value.shape)}, but the graph was captured with "
                f"{list(self.shape)}, and {allowed}; {_ADVICE}"
            )

    def takes(self, value: Tensor) -> bool:
        """Whether an input that passed `check` differs from that of the capture only in sizes that are free."""
        free = 2 if 0 < self.least != self.most else 1
        return value.dim() == len(self.shape) and value.shape[free:] == self.shape[free:]


def _is_between(size: int, least: int, most: int | None) -> bool:
    return least <= size and (most is None or size <= most)


def _shown_range(least: int, most: int | None) -> str:
    if least == most:
        return str(least)
    return f"at least {least}" + ("" if most is None else f" and at most {most}")


InputSizes = list[tuple[str, CapturedSizes | None]]
"""The name of each input of a graph, in order, and the sizes that it was captured with, if it was exported."""


def input_sizes(graph: fx.Graph) -> InputSizes:
    """Return the inputs of a graph with their sizes during the capture."""
    inputs = (node for node in graph.nodes if node.op == "placeholder")
    return [(str(node.target), node.meta.get(CAPTURED_SIZES)) for node in inputs]


def check_sizes(inputs: InputSizes, given: Mapping[str, Any]) -> None:
    """Raise an error if an input has a length or a number of rows that the graph does not take."""
    for name, captured in inputs:
        if captured is not None:
            captured.check(name, given.get(name))


def explain_sizes(inputs: InputSizes, given: Mapping[str, Any]) -> str:
    """Return which input of a failed call has a size that is fixed, and another one than in the capture, or ''."""
    for name, captured in inputs:
        value = given.get(name)
        if captured is not None and isinstance(value, Tensor) and not captured.takes(value):
            return (
                f"input '{name}' has the shape {list(value.shape)}, but the graph was captured with "
                f"{list(captured.shape)}, and does not run with other sizes; {_ADVICE}"
            )
    return ""
