"""Uniform baselines: the same number of bits everywhere, which a search should improve on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chop.display.numbers import counted
from chop.nn.quantized.config import ROLES, UNSET
from chop.searching.space.choices import Choices
from chop.searching.space.dimension import Dimension
from chop.searching.space.space import Space

COMMON_WIDTHS = (8, 6, 4)
MAX_WIDTHS = 12
"""Baselines per format."""
VARIED = ("width", "element")
"""The parameters that decide the width of a number; a format has at most one of them."""


@dataclass(frozen=True)
class Variant:
    """A value of the parameter that decides the bits of a format, such as width 8 or element e4m3."""

    parameter: str
    value: Any

    @property
    def label(self) -> str:
        return counted(self.value, "bit") if self.parameter == "width" else str(self.value)


def uniform_baselines(space: Space) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a configuration per format and width, with the same format and width in all units, by label.

    For each format of the space these are all widths that it offers, and 8, 6 and 4 bits where they lie between
    the smallest and the largest offered width; for a format without a width, all elements that it offers. Fraction
    bits follow the width; all other keys have the first value that the space offers.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in _formats(space):
        for variant in _variants(space, name) or (None,):
            label = name if variant is None else f"{name}, {variant.label}"
            options = {part.name: part.draw(lambda dimension: dimension.choices[0]) for part in space.options}
            uniform = {unit.name: _uniform_config(unit.name, unit.choices, name, variant) for unit in space.units}
            found[label] = {**uniform, **options}
    return found


def _formats(space: Space) -> list[str]:
    names = [name for unit in space.units for name in unit.choices.values("name")]
    return list(dict.fromkeys(str(name) for name in names if name not in UNSET))


def _variants(space: Space, name: str) -> list[Variant]:
    """Return the variants of a format that operands in this format may have, the widest first."""
    offered: dict[str, list[Any]] = {parameter: [] for parameter in VARIED}
    for unit in space.units:
        config = _uniform_config(unit.name, unit.choices, name, None)
        for role, parameter in itertools.product(roles_with_format(config, name), VARIED):
            key = f"{role}_{parameter}"
            if key in config and unit.choices.followed_key(key) is None:
                values = unit.choices.values(key, role, name)
                offered[parameter] += values if len(values) > 1 else ()
    widths = {each for each in offered["width"] if isinstance(each, int)}
    common = {width for width in COMMON_WIDTHS if widths and min(widths) <= width <= max(widths)}
    found = [Variant("width", width) for width in sorted(widths | common, reverse=True)]
    found += [Variant("element", element) for element in dict.fromkeys(offered["element"])]
    return found[:MAX_WIDTHS]


def roles_with_format(config: Mapping[str, Any], name: str) -> list[str]:
    """Return the roles whose operands have this format in a config."""
    return [role for role in ROLES if config.get(f"{role}_name", config["name"]) == name]


def _uniform_config(unit: str, choices: Choices, name: str, variant: Variant | None) -> dict[str, Any]:
    searched: list[str] = []

    def choose(dimension: Dimension) -> Any:
        key = dimension.key
        searched.append(key)
        if key == "name" and name in dimension.choices:
            return name
        if key.endswith("frac_width") and variant is not None and variant.parameter == "width":
            return fraction_width(dimension.choices, variant.value)
        return dimension.choices[0]

    config = choices.draw(unit, choose)
    if variant is None:
        return config
    for role in roles_with_format(config, name):
        key = f"{role}_{variant.parameter}"
        if key in config and (key in searched or choices.followed_key(key) in searched):
            config[key] = variant.value
    return config


def fraction_width(choices: tuple[Any, ...], width: int) -> Any:
    """Return the choice that leaves the fraction bits open, such as "auto", else the one nearest to width / 2."""
    open_choices = [choice for choice in choices if choice in (*UNSET, "auto")]
    return open_choices[0] if open_choices else min(choices, key=lambda choice: abs(choice - width / 2))
