"""All configurations of a model that a search may choose from."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from chop.config.search import SpaceTable
from chop.ir import NodeMeta
from chop.ops import OPS
from chop.passes.quantization.selection import ByNode
from chop.searching.space.choices import Seed
from chop.searching.space.dimension import Dimension, Label, Params, Suggest, dimension, hashable, label

logger = logging.getLogger(__name__)

TRAINING, MODEL = "[training]", "[model]"
"""Names of parts that no node can have."""
Configs = Mapping[str, Mapping[str, Any]]
"""The quantisation config of each unit by its name, and the settings of other parts."""


@dataclass(frozen=True)
class Unit:
    """Nodes that have one configuration, because they call the same layer; most often it is one node."""

    metas: tuple[NodeMeta, ...]
    seed: Seed

    @property
    def name(self) -> str:
        return self.metas[0].node.name

    @property
    def num_points(self) -> int:
        return self.seed.num_points

    def draw(self, suggest: Suggest) -> dict[str, Any]:
        return self.seed.draw(self.name, suggest)


@dataclass(frozen=True)
class Settings:
    """Choices that are no formats: of the training, or of the model."""

    name: str
    choices: Mapping[str, tuple[Any, ...]]

    @property
    def num_points(self) -> int:
        return math.prod(len(each) for each in self.choices.values())

    def draw(self, suggest: Suggest) -> dict[str, Any]:
        return {key: suggest(dimension(f"{self.name}/{key}", each)) for key, each in self.choices.items()}


@dataclass(frozen=True)
class Space:
    """Units of a graph, each with its choices, and choices of other kinds beside them."""

    units: tuple[Unit, ...]
    settings: tuple[Settings, ...] = ()

    @property
    def parts(self) -> tuple[Unit | Settings, ...]:
        return (*self.units, *self.settings)

    def draw(self, suggest: Suggest) -> dict[str, dict[str, Any]]:
        """A configuration of every part, each choice made by `suggest`."""
        return {part.name: part.draw(suggest) for part in self.parts}

    def configs(self, params: Params) -> dict[str, dict[str, Any]]:
        """The configurations at a point."""

        def look_up(dimension: Dimension) -> Any:
            if dimension.name not in params:
                raise ValueError(f"the point lacks '{dimension.name}'")
            return dimension.value(params[dimension.name])

        return self.draw(look_up)

    def dimensions(self, params: Params) -> dict[str, Dimension]:
        """The dimensions in which a point lies."""
        found: dict[str, Dimension] = {}

        def look_up(dimension: Dimension) -> Any:
            found[dimension.name] = dimension
            return dimension.value(params[dimension.name])

        self.draw(look_up)
        return found

    def params(self, configs: Configs) -> dict[str, Label] | None:
        """The point that gives these configurations; None if they are not in the space."""
        found: dict[str, Label] = {}
        for part in self.parts:

            def look_up(dimension: Dimension, wanted: Mapping[str, Any] = configs[part.name]) -> Any:
                value = wanted.get(dimension.key)
                if value not in dimension.choices:
                    raise LookupError(dimension.name)
                found[dimension.name] = label(value)
                return value

            try:
                drawn = part.draw(look_up)
            except LookupError:
                return None
            if drawn != dict(configs[part.name]):
                return None
        return found

    def points(self) -> Iterator[dict[str, Label]]:
        """Every point of the space, one after the other."""
        path: list[tuple[int, int]] = []  # what was taken, of how many, in the order of the draw
        while True:
            point = self._follow(path)
            yield point
            while path and path[-1][0] + 1 == path[-1][1]:
                path.pop()
            if not path:
                return
            path[-1] = (path[-1][0] + 1, path[-1][1])

    def _follow(self, path: list[tuple[int, int]]) -> dict[str, Label]:
        point: dict[str, Label] = {}
        steps = iter(tuple(path))

        def take(dimension: Dimension) -> Any:
            taken, _ = next(steps, (0, 0))
            if len(point) >= len(path):
                path.append((0, len(dimension.choices)))
            point[dimension.name] = dimension.labels[taken]
            return dimension.choices[taken]

        self.draw(take)
        return point

    @cached_property
    def num_points(self) -> int:
        """How many points there are; parts are independent of each other."""
        return math.prod(part.num_points for part in self.parts)


def read_seeds(table: SpaceTable, metas: Sequence[NodeMeta]) -> Space:
    """The space that `[search.search_space]` describes, over the nodes of a graph."""
    where = "search.search_space.seed"
    seeds = {key: _seed(entry, f"{where}.{key}") for key, entry in table.seed.items()}
    default = seeds.pop("default", None)
    meant = _meant(seeds, table.setup.by, {meta.node.name for meta in metas})
    chosen = ByNode(table.setup.by, meant, default)
    chosen.check(metas, where)
    return Space(tuple(_units(chosen, metas)), read_settings(table))


def read_settings(table: SpaceTable) -> tuple[Settings, ...]:
    """The choices of `[search.search_space]` that are no formats."""
    kinds = {TRAINING: table.training, MODEL: table.model}
    return tuple(Settings(name, _choices(given, name)) for name, given in kinds.items() if given)


def _meant(seeds: Mapping[str, Seed | None], by: str, nodes: set[str]) -> dict[str, Seed | None]:
    """A file may hold seeds of ops and seeds of nodes: those that `by` does not ask for are left out."""
    others = {"name": set(OPS) - nodes, "type": nodes - set(OPS)}.get(by, set())
    unused = [key for key in seeds if key in others]
    if unused:
        logger.warning("search.search_space.setup.by is '%s': no use is made of seed %s", by, ", ".join(unused))
    return {key: seed for key, seed in seeds.items() if key not in unused}


def _choices(given: Mapping[str, Any], name: str) -> dict[str, tuple[Any, ...]]:
    for key, values in given.items():
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"search.search_space.{name.strip('[]')}: '{key}' must be a list of choices, got {values!r}"
            )
    return {key: hashable(values) for key, values in given.items()}


def _seed(entry: Mapping[str, Any], where: str) -> Seed | None:
    if set(entry) != {"config"} or not isinstance(entry["config"], Mapping):
        raise ValueError(f"{where} must hold one table, 'config'; it holds {', '.join(entry) or 'nothing'}")
    return Seed(f"{where}.config", entry["config"])


def _units(chosen: ByNode[Seed], metas: Sequence[NodeMeta]) -> Iterator[Unit]:
    by_layer: dict[nn.Module | str, list[NodeMeta]] = {}
    for meta in metas:
        if meta.quantizable:
            by_layer.setdefault(meta.module or meta.node.name, []).append(meta)
    for together in by_layer.values():
        seeds = [chosen.choose(meta.mase_op, meta.node.name) for meta in together]
        if any(seed != seeds[0] for seed in seeds):
            names = " and ".join(f"'{meta.node.name}'" for meta in together)
            raise ValueError(f"nodes {names} call the same layer but have different seeds; give all the same")
        if seeds[0] is not None and not seeds[0].is_nothing:
            yield Unit(tuple(together), seeds[0])
