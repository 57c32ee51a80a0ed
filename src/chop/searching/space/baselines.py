"""Uniform baselines: the same number of bits everywhere, which a search should improve on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chop.nn.quantized.config import ROLES, UNSET
from chop.searching.space.choices import Choices
from chop.searching.space.dimension import Dimension
from chop.searching.space.space import Space

COMMON_WIDTHS = (8, 6, 4)
MAX_WIDTHS = 12
"""Baselines per format."""
WIDTH_KEYS = tuple(f"{role}_width" for role in ROLES)


def uniform_baselines(space: Space) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a configuration per format and width, with the same format and width in all units, by label.

    For each format of the space these are all widths that it offers, and 8, 6 and 4 bits where they lie between
    the smallest and the largest offered width. Fraction bits follow the width; all other keys have the first
    value that the space offers.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in _formats(space):
        for width in _widths(space, name) or (None,):
            label = name if width is None else f"{name}, {width} bits"
            options = {part.name: part.draw(lambda dimension: dimension.choices[0]) for part in space.options}
            uniform = {unit.name: _uniform_config(unit.name, unit.choices, name, width) for unit in space.units}
            found[label] = {**uniform, **options}
    return found


def _formats(space: Space) -> list[str]:
    names = [name for unit in space.units for name in unit.choices.values("name")]
    return list(dict.fromkeys(str(name) for name in names if name not in UNSET))


def _widths(space: Space, name: str) -> Sequence[int]:
    """Return the widths of the baselines of a format, the largest first."""
    offered: set[int] = set()

    def collect(dimension: Dimension) -> Any:
        if dimension.key in WIDTH_KEYS:
            offered.update(choice for choice in dimension.choices if isinstance(choice, int))
        return name if dimension.key == "name" and name in dimension.choices else dimension.choices[0]

    space.draw(collect)
    if not offered:
        return []
    common = {width for width in COMMON_WIDTHS if min(offered) <= width <= max(offered)}
    return sorted(offered | common, reverse=True)[:MAX_WIDTHS]


def _uniform_config(unit: str, choices: Choices, name: str, width: int | None) -> dict[str, Any]:
    searched: list[str] = []

    def choose(dimension: Dimension) -> Any:
        key = dimension.key
        searched.append(key)
        if key == "name" and name in dimension.choices:
            return name
        if key.endswith("frac_width") and width is not None:
            return fraction_width(dimension.choices, width)
        return dimension.choices[0]

    config = choices.draw(unit, choose)
    for key in WIDTH_KEYS:
        if width is not None and key in config and (key in searched or choices.followed_key(key) in searched):
            config[key] = width
    return config


def fraction_width(choices: tuple[Any, ...], width: int) -> Any:
    """Return the choice that leaves the fraction bits open, such as "auto", else the one nearest to width / 2."""
    open_choices = [choice for choice in choices if choice in (*UNSET, "auto")]
    return open_choices[0] if open_choices else min(choices, key=lambda choice: abs(choice - width / 2))
