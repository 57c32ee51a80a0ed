"""All configurations that a search may choose from."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chop.config.search import SpaceTable
from chop.ir import NodeMeta
from chop.ir.graph.shared_layers import group_by_layer
from chop.ops import OPS
from chop.passes.quantization.selection import ByNode
from chop.searching.space.choices import Choices
from chop.searching.space.dimension import (
    Dimension,
    Label,
    Params,
    Suggest,
    distinct_choices,
    make_dimension,
    to_label,
)

logger = logging.getLogger(__name__)

TRAINING, MODEL, METHOD = "[training]", "[model]", "[method]"
"""Names of the parts that are not units; no node can be called like this."""
NEAREST = "nearest"
"""The method that changes no weights: they are rounded to nearest."""
Configuration = Mapping[str, Mapping[str, Any]]
"""The quantisation config of each unit by the unit's name, the training and model options, and the method."""


@dataclass(frozen=True)
class Unit:
    """The nodes that call one layer and therefore share one quantisation config; usually one node."""

    metas: tuple[NodeMeta, ...]
    choices: Choices

    @property
    def name(self) -> str:
        """The name of the first node."""
        return self.metas[0].node.name

    @property
    def num_configs(self) -> int:
        """The number of different configs of this unit."""
        return self.choices.num_configs

    def draw(self, suggest: Suggest) -> dict[str, Any]:
        """Return a config in which `suggest` makes each choice."""
        return self.choices.draw(self.name, suggest)


@dataclass(frozen=True)
class OptionChoices:
    """Allowed values of options that are not formats: of the training, of the model, or the method."""

    name: str
    values: Mapping[str, tuple[Any, ...]]

    @property
    def num_configs(self) -> int:
        """The number of combinations."""
        return math.prod(len(each) for each in self.values.values())

    def draw(self, suggest: Suggest) -> dict[str, Any]:
        """Return a value for each option, chosen by `suggest`."""
        return {key: suggest(make_dimension(f"{self.name}/{key}", each)) for key, each in self.values.items()}


@dataclass(frozen=True)
class Space:
    """The units of a graph with their choices, and the choices of training and model options."""

    units: tuple[Unit, ...]
    options: tuple[OptionChoices, ...] = ()

    @property
    def parts(self) -> tuple[Unit | OptionChoices, ...]:
        """The units and the option choices; the choices of one do not depend on those of another."""
        return (*self.units, *self.options)

    def draw(self, suggest: Suggest) -> dict[str, dict[str, Any]]:
        """Return a configuration in which `suggest` makes each choice."""
        return {part.name: part.draw(suggest) for part in self.parts}

    def configuration(self, params: Params) -> dict[str, dict[str, Any]]:
        """Return the configuration that `params` describe."""

        def look_up(dimension: Dimension) -> Any:
            if dimension.name not in params:
                raise ValueError(f"the params have no value for '{dimension.name}'")
            return dimension.value(params[dimension.name])

        return self.draw(look_up)

    def dimensions(self, params: Params) -> dict[str, Dimension]:
        """Return the dimensions that `params` choose from; which ones there are can depend on the choices."""
        found: dict[str, Dimension] = {}

        def look_up(dimension: Dimension) -> Any:
            found[dimension.name] = dimension
            return dimension.value(params[dimension.name])

        self.draw(look_up)
        return found

    def params(self, configuration: Configuration) -> dict[str, Label] | None:
        """Return the params of a configuration; None if it is not in the space."""
        found: dict[str, Label] = {}
        for part in self.parts:

            def look_up(dimension: Dimension, wanted: Mapping[str, Any] = configuration[part.name]) -> Any:
                value = wanted.get(dimension.key)
                if value not in dimension.choices:
                    raise LookupError(dimension.name)
                found[dimension.name] = to_label(value)
                return value

            try:
                drawn = part.draw(look_up)
            except LookupError:
                return None
            if drawn != dict(configuration[part.name]):
                return None
        return found

    def all_params(self) -> Iterator[dict[str, Label]]:
        """Yield the params of every configuration of the space."""
        path: list[tuple[int, int]] = []  # index taken and number of choices, in the order of the draw
        while True:
            yield self._follow(path)
            while path and path[-1][0] + 1 == path[-1][1]:
                path.pop()
            if not path:
                return
            path[-1] = (path[-1][0] + 1, path[-1][1])

    def _follow(self, path: list[tuple[int, int]]) -> dict[str, Label]:
        """Take the choices of `path`, and the first ones after its end, by which it is extended."""
        params: dict[str, Label] = {}
        steps = iter(tuple(path))

        def take(dimension: Dimension) -> Any:
            taken, _ = next(steps, (0, 0))
            if len(params) >= len(path):
                path.append((0, len(dimension.choices)))
            params[dimension.name] = dimension.labels[taken]
            return dimension.choices[taken]

        self.draw(take)
        return params

    @cached_property
    def num_configurations(self) -> int:
        """The number of different configurations."""
        return math.prod(part.num_configs for part in self.parts)


def read_space(table: SpaceTable, metas: Sequence[NodeMeta]) -> Space:
    """Return the space that `[search.search_space]` describes for the nodes of a graph."""
    where = "search.search_space.seed"
    choices = {key: _read_choices(entry, f"{where}.{key}") for key, entry in table.seed.items()}
    default = choices.pop("default", None)
    used = _used_choices(choices, table.setup.by, {meta.node.name for meta in metas})
    by_node = ByNode(table.setup.by, used, default)
    by_node.check(metas, where)
    return Space(tuple(_units(by_node, metas)), read_option_choices(table))


def read_option_choices(table: SpaceTable) -> tuple[OptionChoices, ...]:
    """Return the choices of training and model options, and of methods, in `[search.search_space]`."""
    tables = {TRAINING: table.training, MODEL: table.model}
    tables[METHOD] = {"method": list(table.method)} if table.method else {}
    return tuple(OptionChoices(name, _option_values(given, name)) for name, given in tables.items() if given)


def _used_choices(choices: Mapping[str, Choices], by: str, nodes: set[str]) -> dict[str, Choices | None]:
    """Return the choices that `by` selects: a file may hold seeds of ops beside seeds of nodes."""
    others = {"name": set(OPS) - nodes, "type": nodes - set(OPS)}.get(by, set())
    unused = [key for key in choices if key in others]
    if unused:
        logger.warning(
            "search.search_space.setup.by is '%s', so these seeds are not used: %s", by, ", ".join(unused)
        )
    return {key: each for key, each in choices.items() if key not in unused}


def _option_values(given: Mapping[str, Any], name: str) -> dict[str, tuple[Any, ...]]:
    for key, values in given.items():
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"search.search_space.{name.strip('[]')}: '{key}' must be a list of choices, got {values!r}"
            )
    return {key: distinct_choices(values) for key, values in given.items()}


def _read_choices(entry: Mapping[str, Any], where: str) -> Choices:
    if set(entry) != {"config"} or not isinstance(entry["config"], Mapping):
        raise ValueError(f"{where} must hold one table, 'config'; it holds {', '.join(entry) or 'nothing'}")
    return Choices(f"{where}.config", entry["config"])


def _units(by_node: ByNode[Choices], metas: Sequence[NodeMeta]) -> Iterator[Unit]:
    quantizable = ((meta, meta.module) for meta in metas if meta.quantizable)
    for together in group_by_layer(quantizable):
        choices = [by_node.choose(meta.mase_op, meta.node.name) for meta in together]
        if any(each != choices[0] for each in choices):
            names = " and ".join(f"'{meta.node.name}'" for meta in together)
            raise ValueError(f"nodes {names} call the same layer but have different seeds; use the same seed")
        if choices[0] is not None and not choices[0].leaves_unquantised:
            yield Unit(together, choices[0])
