"""The quantisation configs that a `config` table with lists of values describes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from chop.formats import FORMATS, parameters
from chop.nn.quantized import QuantConfig
from chop.nn.quantized.config import ROLES, UNSET
from chop.registry import closest
from chop.searching.space.dimension import Dimension, Suggest, distinct_choices, make_dimension

AUTO = "auto"
SAME_AS = "same as "
NAME_KEYS = tuple(f"{role}_name" for role in ROLES)


class _KeysOfFormats(NamedTuple):
    """The keys that the formats of all roles use."""

    chosen: list[tuple[str, str, tuple[Any, ...]]]
    """Key, name of its dimension, and allowed values."""
    following: list[tuple[str, str]]
    """Key, and the key whose value it takes."""


@dataclass(frozen=True)
class Choices:
    """Allowed values of each key of a quantisation config: `{"name": ["integer"], "weight_width": [4, 8], ...}`.

    A list is a choice; any other value is fixed. `"auto"` offers all values that the format declares, and
    `"same as weight_width"` copies the value of another key. Keys that the chosen format does not have are
    left out.
    """

    where: str
    """The table in the TOML file, for error messages."""
    config: Mapping[str, Any]

    def __post_init__(self) -> None:
        if "name" not in self.config:
            raise ValueError(f"{self.where}: needs 'name', a format or a list of formats; {closest('', FORMATS)}")
        for key in self.config:
            self._check_followed_key(key)
        known = {*NAME_KEYS} | {
            key for role in ROLES for name in self._formats_of_role(role) for key in _keys_of_format(role, name)
        }
        for key, value in self.config.items():
            if key != "name" and key not in known:
                formats = ", ".join(str(name) for name in self.values("name"))
                raise ValueError(f"{self.where}: format {formats} has no parameter '{key}'; {closest(key, known)}")
            if isinstance(value, list) and not value:
                raise ValueError(f"{self.where}: '{key}' is an empty list; list the values to choose from")
        self._check_all_values()

    @property
    def leaves_unquantised(self) -> bool:
        """Whether every choice leaves the nodes unquantised."""
        return all(name in UNSET for name in self.values("name"))

    def draw(self, prefix: str, suggest: Suggest) -> dict[str, Any]:
        """Return a config in which `suggest` makes each choice; dimensions are named `prefix/key`."""

        def choose(name: str, values: tuple[Any, ...]) -> Any:
            return values[0] if len(values) == 1 else suggest(make_dimension(f"{prefix}/{name}", values))

        config = {"name": choose("name", self._names)}
        if config["name"] in UNSET:
            return config
        for key in self.format_keys:
            config[key] = choose(key, self.values(key))
        keys = self._keys(self._add_followed_formats(config))
        for key, name, values in keys.chosen:
            config[key] = choose(name, values)
        for key, followed in keys.following:
            config[key] = config[followed]
        return config

    @cached_property
    def num_configs(self) -> int:
        """The number of different configs."""
        total = 0
        formats = {key: self.values(key) for key in ("name", *self.format_keys)}
        for chosen in itertools.product(*formats.values()):
            config = dict(zip(formats, chosen, strict=True))
            if config["name"] not in UNSET:
                keys = self._keys(self._add_followed_formats(config))
                total += math.prod(len(values) for _, _, values in keys.chosen)
        return total + sum(name in UNSET for name in formats["name"])

    @cached_property
    def _names(self) -> tuple[Any, ...]:
        return self.values("name")

    def values(self, key: str, role: str = "", format_name: str = "") -> tuple[Any, ...]:
        """Return the values that a key may have; `role` and `format_name` are needed for `"auto"`."""
        value = self.config[key]
        if value == AUTO:
            offered = [p for p in parameters(FORMATS[format_name]) if key == f"{role}_{p.name}"] if role else []
            found = tuple(value for parameter in offered for value in parameter.metadata["search"])
            if not found:
                raise ValueError(f"{self.where}: '{key}' has no predefined values for \"auto\"; give a list")
            return found
        return distinct_choices(value if isinstance(value, list) else [value])

    def followed_key(self, key: str) -> str | None:
        """Return the key whose value `key` copies, as in `"same as weight_width"`; None if it has its own."""
        value = self.config[key]
        if isinstance(value, str) and value.startswith(SAME_AS):
            return value.removeprefix(SAME_AS).strip()
        return None

    def _keys(self, formats: tuple[str, ...]) -> _KeysOfFormats:
        """Return the keys to choose when the formats of all roles are known."""
        if formats in self._keys_by_formats:
            return self._keys_by_formats[formats]
        chosen, following = [], []
        for role, format_name in zip(ROLES, formats, strict=True):
            for key in (key for key in _keys_of_format(role, format_name) if key in self.config):
                if (followed := self.followed_key(key)) is not None:
                    following.append((key, followed))
                else:
                    depends_on_format = self.config[key] == AUTO and len(self._formats_of_role(role)) > 1
                    name = f"{format_name}.{key}" if depends_on_format else key
                    chosen.append((key, name, self.values(key, role, format_name)))
        names = {key for key, _, _ in chosen}
        keys = _KeysOfFormats(chosen, [(key, followed) for key, followed in following if followed in names])
        self._keys_by_formats[formats] = keys
        return keys

    @cached_property
    def _keys_by_formats(self) -> dict[tuple[str, ...], _KeysOfFormats]:
        return {}

    @cached_property
    def format_keys(self) -> list[str]:
        """The keys that give one role another format, such as `weight_name`."""
        return [key for key in NAME_KEYS if key in self.config and self.followed_key(key) is None]

    def _add_followed_formats(self, config: dict[str, Any]) -> tuple[str, ...]:
        """Add the formats that are copied from other keys, and return the formats of all roles."""
        for key, followed in self._followed_names:
            config[key] = config[followed]
        return tuple(str(config.get(key, config["name"])) for key in NAME_KEYS)

    @cached_property
    def _followed_names(self) -> list[tuple[str, str]]:
        """The formats that are copied from another key, as in `bias_name = "same as weight_name"`."""
        keys = (key for key in NAME_KEYS if key in self.config)
        return [(key, followed) for key in keys if (followed := self.followed_key(key)) is not None]

    def _formats_of_role(self, role: str) -> list[str]:
        """Return the formats that an operand of a role may have."""
        key = f"{role}_name"
        if key in self.config:
            key = self.followed_key(key) or key
        return [str(name) for name in self.values(key if key in self.config else "name") if name not in UNSET]

    def _check_followed_key(self, key: str) -> None:
        followed = self.followed_key(key)
        if followed is not None and (followed not in self.config or self.followed_key(followed) is not None):
            known = [each for each in self.config if each != key and self.followed_key(each) is None]
            raise ValueError(f"{self.where}: '{key}' cannot copy '{followed}'; {closest(followed, known)}")
        if followed is not None and key.endswith("name") != followed.endswith("name"):
            raise ValueError(
                f"{self.where}: '{key}' cannot copy '{followed}': only one of them is the name of a format"
            )

    def _check_all_values(self) -> None:
        """Check that each value is allowed together with some values of the other keys.

        Trying all combinations would take too long. Each value is tried with the first values of all other keys,
        then with the second ones, and so on; formats and other keys are varied separately.
        """
        sizes = {key: len(self._values_in_any_format(key)) for key in self.config}
        num_formats = max(sizes[key] for key in ("name", *self.format_keys))
        positions = list(itertools.product(range(num_formats), range(max(sizes.values()))))
        for key in ("name", *self.config):
            for position in range(sizes[key]):
                self._check_value(key, position, positions)

    def _check_value(self, key: str, position: int, positions: Sequence[tuple[int, int]]) -> None:
        """Check one value with the other keys at `positions`: one for keys that name formats, one for the rest."""
        first_error: ValueError | None = None
        for of_formats, of_others in positions:
            config = self.draw("", partial(_pick, key, position, of_formats, of_others))
            if key in config:
                try:
                    QuantConfig.read(config, self.where)
                except ValueError as error:
                    first_error = first_error or error
                else:
                    return
        if first_error is not None:
            raise first_error

    def _values_in_any_format(self, key: str) -> tuple[Any, ...]:
        if self.config[key] == AUTO:
            role = next(role for role in ROLES if key.startswith(f"{role}_"))
            formats = [name for name in self._formats_of_role(role) if key in _keys_of_format(role, name)]
            return tuple(value for name in formats for value in self.values(key, role, name))
        return self.values(key)


def _keys_of_format(role: str, format_name: str) -> list[str]:
    """Return the keys of a format's parameters for an operand of a role."""
    return [f"{role}_{parameter.name}" for parameter in parameters(FORMATS[format_name])]


def _pick(key: str, position: int, of_formats: int, of_others: int, dimension: Dimension) -> Any:
    """Return the choice at `position` if the dimension belongs to `key`, else at one of the other two positions.

    For example, `_pick("weight_width", 2, 0, 1, dimension)` gives the third weight width, the first choice of a
    dimension that names a format, and the second choice of any other; the last one if there are fewer.
    """
    usual = of_formats if dimension.key.endswith("name") else of_others
    wanted = position if dimension.key == key and position < len(dimension.choices) else usual
    return dimension.choices[min(wanted, len(dimension.choices) - 1)]
