"""The configurations that a table of choices stands for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from chop.formats import FORMATS, parameters
from chop.nn.quantized import QuantConfig
from chop.nn.quantized.config import ROLES, UNSET
from chop.registry import closest
from chop.searching.space.dimension import Dimension, Suggest, dimension, hashable

AUTO = "auto"
SAME_AS = "same as "


@dataclass
class _Plan:
    """Keys with the names of their dimensions and what they may be, and keys that follow others."""

    chosen: list[tuple[str, str, tuple[Any, ...]]] = field(default_factory=list)
    following: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Seed:
    """Choices for each key of a quantisation config: `{"name": ["integer"], "weight_width": [4, 8], ...}`.

    A list is a choice, any other value is fixed; `"auto"` is all that the format's declaration offers, and
    `"same as weight_width"` follows another key. Keys that a chosen format does not have are left out with it.
    """

    where: str
    config: Mapping[str, Any]

    def __post_init__(self) -> None:
        if "name" not in self.config:
            raise ValueError(f"{self.where}: needs 'name', a format or a list of formats; {closest('', FORMATS)}")
        known = {key for role in ROLES for key in (f"{role}_name", *self._keys_of(role))}
        for key, value in self.config.items():
            if key != "name" and key not in known:
                formats = ", ".join(str(name) for name in self.choices("name"))
                raise ValueError(f"{self.where}: format {formats} has no parameter '{key}'; {closest(key, known)}")
            if isinstance(value, list) and not value:
                raise ValueError(f"{self.where}: '{key}' is an empty list; give it the values to choose from")
            self._check_reference(key)
        self._check_values()

    @property
    def is_nothing(self) -> bool:
        """Whether it leaves nodes alone whatever is chosen."""
        return all(name in UNSET for name in self.choices("name"))

    def draw(self, prefix: str, suggest: Suggest) -> dict[str, Any]:
        """A configuration, each of its choices made by `suggest`; `prefix` begins the names of the dimensions."""
        config = {"name": self._one(prefix, "name", self.choices("name"), suggest)}
        if config["name"] in UNSET:
            return config
        for key in self._format_keys:
            config[key] = self._one(prefix, key, self.choices(key), suggest)
        names = tuple(str(config.get(f"{role}_name", config["name"])) for role in ROLES)
        if names not in self._plans:
            self._plans[names] = self._plan(names)
        plan = self._plans[names]
        for key, name, choices in plan.chosen:
            config[key] = self._one(prefix, name, choices, suggest)
        for key, other in plan.following:
            config[key] = config[other]
        return config

    @cached_property
    def num_points(self) -> int:
        """How many configurations there are."""
        total = 0
        named = {key: self.choices(key) for key in ("name", *self._format_keys)}
        for chosen in itertools.product(*named.values()):
            config = dict(zip(named, chosen, strict=True))
            names = tuple(str(config.get(f"{role}_name", config["name"])) for role in ROLES)
            if config["name"] not in UNSET:
                total += math.prod(len(choices) for _, _, choices in self._plan(names).chosen)
        return total + sum(name in UNSET for name in named["name"])

    def _plan(self, names: tuple[str, ...]) -> _Plan:
        """What is to be chosen once the format of each role is."""
        plan = _Plan()
        for role, format_name in zip(ROLES, names, strict=True):
            for key in _keys(role, format_name):
                other = self.references(key) if key in self.config else None
                if other is not None:
                    plan.following.append((key, other))
                elif key in self.config:
                    by_format = self.config[key] == AUTO and len(self._formats(role)) > 1
                    name = f"{format_name}.{key}" if by_format else key
                    plan.chosen.append((key, name, self.choices(key, role, format_name)))
        known = {key for key, _, _ in plan.chosen}
        plan.following = [(key, other) for key, other in plan.following if other in known]
        return plan

    @cached_property
    def _plans(self) -> dict[tuple[str, ...], _Plan]:
        return {}

    @cached_property
    def _format_keys(self) -> list[str]:
        """The keys that give a role a format of its own."""
        keys = [f"{role}_name" for role in ROLES]
        return [key for key in keys if key in self.config and self.references(key) is None]

    def choices(self, key: str, role: str = "", format_name: str = "") -> tuple[Any, ...]:
        """What a key may be, of a format where that matters."""
        value = self.config[key]
        if value == AUTO:
            offered = [p for p in parameters(FORMATS[format_name]) if key == f"{role}_{p.name}"] if role else []
            found = tuple(value for parameter in offered for value in parameter.metadata["search"])
            if not found:
                raise ValueError(f"{self.where}: '{key}' has no values of its own to choose from; give it a list")
            return found
        return hashable(value) if isinstance(value, list) else hashable([value])

    def references(self, key: str) -> str | None:
        """The key that `key` is to follow."""
        value = self.config[key]
        is_one = isinstance(value, str) and value.startswith(SAME_AS)
        return value.removeprefix(SAME_AS).strip() if is_one else None

    @staticmethod
    def _one(prefix: str, name: str, choices: tuple[Any, ...], suggest: Suggest) -> Any:
        return choices[0] if len(choices) == 1 else suggest(dimension(f"{prefix}/{name}", choices))

    def _formats(self, role: str) -> list[str]:
        """The formats that an operand of a role may have."""
        key = f"{role}_name"
        named = self.choices(key) if key in self.config and self.references(key) is None else self.choices("name")
        return [str(name) for name in named if name not in UNSET]

    def _keys_of(self, role: str) -> list[str]:
        return [key for name in self._formats(role) for key in _keys(role, name)]

    def _check_reference(self, key: str) -> None:
        other = self.references(key)
        if other is not None and (other not in self.config or self.references(other) is not None):
            known = [each for each in self.config if each != key and self.references(each) is None]
            raise ValueError(f"{self.where}: '{key}' is to be the same as '{other}'; {closest(other, known)}")

    def _check_values(self) -> None:
        """Each value must go with some of the other keys: the first ones of all, the second ones of all, ..."""
        sizes = {key: len(self._choices_anywhere(key)) for key in self.config}
        most_formats = max(sizes[key] for key in ("name", *self._format_keys))
        others = list(itertools.product(range(most_formats), range(max(sizes.values()))))
        for key in ("name", *self.config):
            for position in range(sizes[key]):
                self._check_value(key, position, others)

    def _check_value(self, key: str, position: int, others: Sequence[tuple[int, int]]) -> None:
        """`others` are the positions of formats, and of all else, that it is tried with."""
        problems: list[ValueError] = []
        for of_formats, of_others in others:
            config = self.draw("", partial(_pick, key, position, of_formats, of_others))
            if key in config:
                try:
                    QuantConfig.read(config, self.where)
                except ValueError as error:
                    problems.append(error)
                else:
                    return
        if problems:
            raise problems[0]

    def _choices_anywhere(self, key: str) -> tuple[Any, ...]:
        if self.config[key] == AUTO:
            role = next(role for role in ROLES if key.startswith(f"{role}_"))
            having = [name for name in self._formats(role) if key in _keys(role, name)]
            return tuple(choice for name in having for choice in self.choices(key, role, name))
        return self.choices(key)


def _keys(role: str, format_name: str) -> list[str]:
    """The keys that a format has for an operand of a role."""
    return [f"{role}_{parameter.name}" for parameter in parameters(FORMATS[format_name])]


def _pick(key: str, position: int, of_formats: int, of_others: int, of: Dimension) -> Any:
    """The value at a position of the dimension of `key`; at others of those of formats, and of all else."""
    usual = of_formats if of.key.endswith("name") else of_others
    wanted = position if of.key == key and position < len(of.choices) else usual
    return of.choices[min(wanted, len(of.choices) - 1)]
