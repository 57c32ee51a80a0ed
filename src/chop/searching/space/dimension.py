"""One choice of a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

Label = str | int | float | bool | None
"""What Optuna's storages can hold of a choice."""
Params = Mapping[str, Label]
"""A point of a space: the label of what was chosen, by the name of the dimension."""


@dataclass(frozen=True)
class Dimension:
    """A name, such as `seq_blocks_2/weight_width`, and the values that it may have."""

    name: str
    choices: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The key of the configuration that it is for: `weight_width`."""
        return self.name.rpartition("/")[2].rpartition(".")[2]

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        return tuple(label(choice) for choice in self.choices)

    def value(self, of: Label) -> Any:
        """The choice with a label."""
        for known, choice in zip(self.labels, self.choices, strict=True):
            if known == of and type(known) is type(of):
                return choice
        shown = ", ".join(str(known) for known in self.labels)
        raise ValueError(f"'{self.name}' cannot be {of!r}; allowed: {shown}")


@cache
def dimension(name: str, choices: tuple[Any, ...]) -> Dimension:
    """Always the same object for the same dimension: a search asks for each of them again and again."""
    return Dimension(name, choices)


Suggest = Callable[[Dimension], Any]
"""Chooses a value of a dimension."""


def hashable(choices: list[Any]) -> tuple[Any, ...]:
    """Choices that a user wrote, with tuples for lists."""
    return tuple(tuple(choice) if isinstance(choice, list) else choice for choice in choices)


def label(choice: Any) -> Label:
    """A choice as a plain value: lists and tables as JSON."""
    return choice if isinstance(choice, str | int | float | bool | None) else json.dumps(choice)
