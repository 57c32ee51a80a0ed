"""Post-training quantisation: configurations are measured without training, after a method for low bit widths."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import fx

from chop.config import SearchConfig
from chop.nn.quantized import QuantConfig
from chop.passes import PASSES
from chop.passes.graph.transforms.low_bits.layers import CalibrationArgs
from chop.runs import Experiment
from chop.searching.evaluation.cost_runners import CostRunner
from chop.searching.evaluation.costs import CostChange, Costs, costs_of
from chop.searching.evaluation.evaluator import Evaluator, PartialEvaluation
from chop.searching.evaluation.problem import Metrics, Problem, ShouldContinue
from chop.searching.evaluation.transform_config import transform_config
from chop.searching.space import Configuration, Space, Unit
from chop.searching.space.space import METHOD, NEAREST
from chop.training.budget import Correct
from chop.transforming.pipeline import pass_messages_from, run_passes

RUNG_SHARES = (1 / 8, 1 / 4, 1 / 2)
"""Shares of the rows after which a trial can be pruned."""


@dataclass(frozen=True)
class QuantizedUnit:
    """A unit in one of its configs: what replaces its nodes, and what that changes in the costs."""

    replacements: Mapping[fx.Node, Callable[..., Any]]
    cost_change: CostChange


class PTQProblem(Problem):
    """Formats of the units of one graph, whose weights stay unchanged; each unit can be measured separately."""

    def __init__(self, space: Space, evaluator: Evaluator, costs: Costs) -> None:
        self.space, self.evaluator, self._costs = space, evaluator, costs
        evaluator.replace_only({meta.node for unit in space.units for meta in unit.metas})
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
        return _metrics(self.evaluator.evaluate(_together(quantized), after_batch), costs)

    def measure_original(self) -> Metrics:
        found = self.evaluator.evaluate({})
        return {"accuracy": found.accuracy, "loss": found.loss, **self._costs.total(())}

    def correct(self, configuration: Configuration | None) -> Correct:
        replacements = {} if configuration is None else self.replacements(configuration)
        return lambda rows: self.evaluator.correct(rows, replacements)

    def costs(self, configuration: Configuration) -> Metrics:
        """Return the cost metrics of a configuration; units that it does not name are not quantised."""
        named = [unit for unit in self.space.units if unit.name in configuration]
        return self._costs.total(each.cost_change for each in self._quantized_units(configuration, named))

    def replacements(self, configuration: Configuration) -> dict[fx.Node, Callable[..., Any]]:
        """Return what replaces each node in a configuration."""
        return _together(self._quantized_units(configuration, self.space.units))

    def _quantized_units(self, configuration: Configuration, units: Sequence[Unit]) -> list[QuantizedUnit]:
        return [self.quantized_unit(unit, configuration[unit.name]) for unit in units]

    def quantized_unit(self, unit: Unit, config: Mapping[str, Any]) -> QuantizedUnit:
        """Return a unit in a config, made once per config; raise ValueError if a format does not allow it."""
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


class MethodProblem(PTQProblem):
    """Formats of the units of one graph, and the method for low bit widths that rounds its weights."""

    def __init__(
        self,
        config: SearchConfig,
        experiment: Experiment,
        runners: Sequence[CostRunner],
        space: Space,
        evaluator: Evaluator,
        costs: Costs,
    ) -> None:
        super().__init__(space, evaluator, costs)
        self._config, self._experiment, self._runners = config, experiment, runners

    @property
    def rungs(self) -> Mapping[int, int]:
        return {}

    def measure(self, configuration: Configuration, should_continue: ShouldContinue | None = None) -> Metrics:
        if configuration[METHOD]["method"] == NEAREST:
            return super().measure(configuration)
        changed = self._changed(configuration)
        return _metrics(changed.evaluate({}), costs_of(changed.graph, self._runners))

    def correct(self, configuration: Configuration | None) -> Correct:
        if configuration is None or configuration[METHOD]["method"] == NEAREST:
            return super().correct(configuration)
        changed = self._changed(configuration)
        return lambda rows: changed.correct(rows, {})

    def _changed(self, configuration: Configuration) -> Evaluator:
        """Return an evaluator of the graph that the method has changed."""
        passes = transform_config(self._config, self.space.units, configuration).passes
        with pass_messages_from(logging.ERROR):
            graph = run_passes(passes, self.evaluator.graph, self._experiment).graph
        return Evaluator(graph, self._experiment.arguments, self.evaluator.rows)


def known_methods() -> list[str]:
    """Return the methods that a search may choose from: rounding to nearest, and passes that look at data."""
    return [NEAREST, *(name for name, run in PASSES.items() if issubclass(run.args_class, CalibrationArgs))]


def _metrics(evaluation: PartialEvaluation, costs: Metrics) -> Metrics:
    return {
        "accuracy": evaluation.accuracy,
        "loss": evaluation.loss,
        **costs,
        "num_rows": evaluation.num_rows,
    }


def _together(quantized: Iterable[QuantizedUnit]) -> dict[fx.Node, Callable[..., Any]]:
    return {node: target for each in quantized for node, target in each.replacements.items()}
