"""The same number of bits everywhere: what every search has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chop.nn.quantized.config import ROLES, UNSET
from chop.searching.space.choices import Seed
from chop.searching.space.dimension import Dimension
from chop.searching.space.space import Space

USUAL = (8, 6, 4)
MOST = 12
WIDTHS = tuple(f"{role}_width" for role in ROLES)


def uniform_baselines(space: Space) -> dict[str, dict[str, dict[str, Any]]]:
    """Configurations by label: every format of the space, with each width that it offers, the same in all units.

    The usual widths between the least and the largest one that is offered are among them, also where the space
    leaves them out. What is not a width is the first that the space offers; fraction bits follow the width.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in _formats(space):
        for width in _widths(space, name) or (None,):
            text = name if width is None else f"{name}, {width} bits"
            others = {part.name: part.draw(lambda dimension: dimension.choices[0]) for part in space.settings}
            uniform = {unit.name: _uniform(unit.name, unit.seed, name, width) for unit in space.units}
            found[text] = {**uniform, **others}
    return found


def _formats(space: Space) -> list[str]:
    names = [name for unit in space.units for name in unit.seed.choices("name")]
    return list(dict.fromkeys(str(name) for name in names if name not in UNSET))


def _widths(space: Space, name: str) -> Sequence[int]:
    offered: set[int] = set()

    def note(dimension: Dimension) -> Any:
        if dimension.key in WIDTHS:
            offered.update(choice for choice in dimension.choices if isinstance(choice, int))
        return name if dimension.key == "name" and name in dimension.choices else dimension.choices[0]

    space.draw(note)
    if not offered:
        return []
    usual = {width for width in USUAL if min(offered) <= width <= max(offered)}
    return sorted(offered | usual, reverse=True)[:MOST]


def _uniform(unit: str, seed: Seed, name: str, width: int | None) -> dict[str, Any]:
    searched: list[str] = []

    def choose(dimension: Dimension) -> Any:
        key = dimension.key
        searched.append(key)
        if key == "name" and name in dimension.choices:
            return name
        if key.endswith("frac_width") and width is not None:
            return fraction(dimension.choices, width)
        return dimension.choices[0]

    config = seed.draw(unit, choose)
    for key in WIDTHS:
        if width is not None and key in config and (key in searched or seed.references(key) in searched):
            config[key] = width
    return config


def fraction(choices: tuple[Any, ...], width: int) -> Any:
    """What leaves fraction bits open, or else the choice next to half of the width."""
    free = [choice for choice in choices if choice in (*UNSET, "auto")]
    return free[0] if free else min(choices, key=lambda choice: abs(choice - width / 2))
