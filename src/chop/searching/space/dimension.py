"""Dimensions: the single choices that make up a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

Label = str | int | float | bool | None
"""A choice as Optuna's storages can hold it."""
Params = Mapping[str, Label]
"""A configuration as Optuna stores it: the label of each choice by the name of its dimension."""


@dataclass(frozen=True)
class Dimension:
    """One thing to choose: a name, such as `seq_blocks_2/weight_width`, and the allowed values."""

    name: str
    choices: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The key of the quantisation config that it sets, such as `weight_width`."""
        return self.name.rpartition("/")[2].rpartition(".")[2]

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """The choices as they are stored."""
        return tuple(to_label(choice) for choice in self.choices)

    def value(self, label: Label) -> Any:
        """Return the choice that has this label."""
        try:
            return self._by_label[type(label), label]
        except KeyError:
            shown = ", ".join(str(known) for known in self.labels)
            raise ValueError(f"'{self.name}' cannot be {label!r}; allowed: {shown}") from None

    @cached_property
    def _by_label(self) -> dict[tuple[type, Label], Any]:
        """The choices by type and label: 1, 1.0 and True are different."""
        return {(type(label), label): choice for label, choice in zip(self.labels, self.choices, strict=True)}


@cache
def make_dimension(name: str, choices: tuple[Any, ...]) -> Dimension:
    """Return the dimension; equal arguments give the same object, because a search needs each one many times."""
    return Dimension(name, choices)


Suggest = Callable[[Dimension], Any]
"""Chooses a value of a dimension."""


def distinct_choices(choices: list[Any]) -> tuple[Any, ...]:
    """Return choices from a TOML file, each once, with lists converted to tuples; 1, 1.0 and true are different."""
    for choice in choices:
        parts = choice if isinstance(choice, list) else [choice]
        if not all(isinstance(part, str | int | float | bool | None) for part in parts):
            raise ValueError(f"a choice must be a number, a name or a list of them, got {choice!r}")
    values = (tuple(choice) if isinstance(choice, list) else choice for choice in choices)
    return tuple({(type(value), value): value for value in values}.values())


def to_label(choice: Any) -> Label:
    """Return a choice as a plain value; lists and tables become JSON."""
    return choice if isinstance(choice, str | int | float | bool | None) else json.dumps(choice)


def equality_key(choices: Mapping[str, Any]) -> str:
    """Return a text that is the same for equal params, or for equal configurations, in any order."""
    return json.dumps(choices, sort_keys=True, default=dict)


def distinct_params(params: Iterable[Params], *, keep_empty: bool = False) -> list[Params]:
    """Return each of the params once, in the order of their first occurrence.

    With `keep_empty` all empty ones are kept: a sampler draws them when their trials start.
    """
    seen: set[str] = set()
    kept = []
    for each in params:
        key = equality_key(each)
        if key not in seen or (keep_empty and not each):
            seen.add(key)
            kept.append(each)
    return kept
