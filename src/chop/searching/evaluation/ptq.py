"""Post-training quantisation: configurations are measured without training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import fx

from chop.dataset import Rows
from chop.nn.quantized import QuantConfig
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.problem import Metrics, QuantizedUnit, ShouldContinue, UnitwiseProblem
from chop.searching.space import Configuration, Space, Unit

RUNG_SHARES = (1 / 8, 1 / 4, 1 / 2)
"""Shares of the rows after which a trial can be pruned."""


class PTQProblem(UnitwiseProblem):
    """Formats of the units of one graph, whose weights stay unchanged."""

    def __init__(self, space: Space, evaluator: Evaluator, costs: Costs, training_rows: Rows | None = None) -> None:
        self.space = space
        self.evaluator = evaluator
        evaluator.replace_only({meta.node for unit in space.units for meta in unit.metas})
        self.training_rows = training_rows
        self._costs = costs
        self._quantized: dict[tuple[str, object], QuantizedUnit] = {}
        self._read_configs: dict[object, QuantConfig | None] = {}

    @property
    def num_rows(self) -> int:
        return self.evaluator.num_rows

    @property
    def rungs(self) -> Mapping[int, int]:
        ends = self.evaluator.batch_ends
        wanted = (math.ceil(share * self.num_rows) for share in RUNG_SHARES)
        steps = [next(end for end in ends if end >= rows) for rows in wanted]
        return {step: step for step in steps if step < self.num_rows}

    def measure(self, configuration: Configuration, should_continue: ShouldContinue | None = None) -> Metrics:
        quantized = self._quantized_units(configuration, self.space.units)
        costs = self._costs.total(each.cost_change for each in quantized)
        after_batch = None if should_continue is None else partial(should_continue, costs)
        found = self.evaluator.evaluate(_together(quantized), after_batch)
        return {"accuracy": found.accuracy, "loss": found.loss, **costs, "num_rows": found.num_rows}

    def measure_original(self) -> Metrics:
        found = self.evaluator.evaluate({})
        return {"accuracy": found.accuracy, "loss": found.loss, **self._costs.total(())}

    def costs(self, configuration: Configuration) -> Metrics:
        named = [unit for unit in self.space.units if unit.name in configuration]
        return self._costs.total(each.cost_change for each in self._quantized_units(configuration, named))

    def replacements(self, configuration: Configuration) -> dict[fx.Node, Callable[..., Any]]:
        return _together(self._quantized_units(configuration, self.space.units))

    def _quantized_units(self, configuration: Configuration, units: Sequence[Unit]) -> list[QuantizedUnit]:
        return [self.quantized_unit(unit, configuration[unit.name]) for unit in units]

    def quantized_unit(self, unit: Unit, config: Mapping[str, Any]) -> QuantizedUnit:
        """Return a unit in a config; made once per config."""
        key = (unit.name, tuple(config.items()))
        found = self._quantized.get(key)
        if found is None:
            found = self._quantized[key] = self._quantize(unit, config, key[1])
        return found

    def _quantize(self, unit: Unit, config: Mapping[str, Any], key: object) -> QuantizedUnit:
        if key not in self._read_configs:
            self._read_configs[key] = QuantConfig.read(config, f"search: {unit.name}")
        read = self._read_configs[key]
        if read is None:
            return QuantizedUnit({}, self._costs.change({}))
        replacement = self.evaluator.replacement(unit.metas[0], read)
        formats = {meta.node.name: replacement.formats for meta in unit.metas}
        return QuantizedUnit({meta.node: replacement for meta in unit.metas}, self._costs.change(formats))


def _together(quantized: Iterable[QuantizedUnit]) -> dict[fx.Node, Callable[..., Any]]:
    return {node: target for each in quantized for node, target in each.replacements.items()}
