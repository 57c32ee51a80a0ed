"""What is searched and how it is measured, ready to be asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import fx

from chop.dataset import Rows
from chop.nn.quantized import QuantConfig
from chop.searching.evaluation.cost_metrics import Amounts
from chop.searching.evaluation.costs import Costs, Formats
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.problem import Judge, Measurable, Metrics
from chop.searching.space import Space, Unit
from chop.searching.space.space import Configs

RUNGS = (1 / 8, 1 / 4, 1 / 2)
"""Shares of the rows at which a trial may be given up."""


@dataclass(frozen=True)
class Option:
    """A unit in one configuration: what stands for its nodes, and what that costs."""

    replaced: Mapping[fx.Node, Callable[..., Any]]
    formats: Formats
    extra: tuple[Amounts, ...]


class Problem(Measurable):
    """A space over a graph, and the metrics of its points."""

    def __init__(self, space: Space, evaluator: Evaluator, costs: Costs, training_rows: Rows | None = None) -> None:
        """`training_rows` are for strategies that learn; nothing is measured on them."""
        self.space = space
        self.evaluator = evaluator
        self.training_rows = training_rows
        self._costs = costs
        self._sharing = {u.name for u in space.units if any(m.node.name in costs.sharing for m in u.metas)}
        self._options: dict[tuple[str, object], Option] = {}
        self._read: dict[object, QuantConfig | None] = {}

    @property
    def num_rows(self) -> int:
        return self.evaluator.num_rows

    @property
    def rungs(self) -> Mapping[int, int]:
        ends = self.evaluator.ends
        wanted = (math.ceil(share * self.num_rows) for share in RUNGS)
        steps = [next(end for end in ends if end >= rows) for rows in wanted]
        return {step: step for step in steps if step < self.num_rows}

    def measure(self, configs: Configs, judge: Judge | None = None) -> Metrics:
        costs = self.costs(configs)
        ask = None if judge is None else partial(judge, costs)
        found = self.evaluator.evaluate(self.replaced(configs), ask)
        return {"accuracy": found.accuracy, "loss": found.loss, **costs, "num_rows": found.num_rows}

    def plain(self) -> Metrics:
        found = self.evaluator.evaluate({})
        return {"accuracy": found.accuracy, "loss": found.loss, **self._costs.total(())}

    def costs(self, configs: Configs) -> Metrics:
        """What a configuration costs; units that it does not name are as in the model."""
        named = [unit for unit in self.space.units if unit.name in configs]
        options = {unit.name: self.option(unit, configs[unit.name]) for unit in named}
        extras = [option.extra for name, option in options.items() if name not in self._sharing]
        together = [option.formats for name, option in options.items() if name in self._sharing]
        if together:
            extras.append(self._costs.extra({node: formats for each in together for node, formats in each.items()}))
        return self._costs.total(extras)

    def replaced(self, configs: Configs) -> dict[fx.Node, Callable[..., Any]]:
        """What stands for each node in a configuration."""
        options = (self.option(unit, configs[unit.name]) for unit in self.space.units)
        return {node: target for option in options for node, target in option.replaced.items()}

    def option(self, unit: Unit, config: Mapping[str, Any]) -> Option:
        """A unit in a configuration; made once."""
        key = (unit.name, tuple(config.items()))
        if key not in self._options:
            self._options[key] = self._make(unit, config, key[1])
        return self._options[key]

    def _make(self, unit: Unit, config: Mapping[str, Any], key: object) -> Option:
        if key not in self._read:
            self._read[key] = QuantConfig.read(config, f"search: {unit.name}")
        read = self._read[key]
        if read is None:
            return Option({}, {}, self._costs.extra({}))
        made = self.evaluator.replacement(unit.metas[0], read)
        replaced = {meta.node: made for meta in unit.metas}
        formats = {meta.node.name: made.formats for meta in unit.metas}
        return Option(replaced, formats, self._costs.extra(formats))
