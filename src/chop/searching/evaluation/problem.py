"""Problems: a search space together with a way to measure its configurations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.searching.evaluation.costs import CostChange
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.space import Configuration, Space, Unit

PTQ, QAT = "graph/quantize/mixed_precision_ptq", "graph/quantize/mixed_precision_qat"
"""Names of the spaces: without training, or with a short training of each configuration."""
Metrics = dict[str, float]
ShouldContinue = Callable[[Metrics, int, float], bool]
"""Whether to continue a measurement, given the costs of the configuration, the rung, and the accuracy at it."""


class Problem(ABC):
    """What is searched: a space, and the metrics of each of its configurations."""

    space: Space

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """The number of rows that accuracy is measured on."""

    @property
    @abstractmethod
    def rungs(self) -> Mapping[int, int]:
        """The steps at which a measurement can be stopped, each with the number of rows measured at it."""

    @abstractmethod
    def measure(self, configuration: Configuration, should_continue: ShouldContinue | None = None) -> Metrics:
        """Return all metrics of a configuration; `should_continue` is called at each rung and can stop it."""

    @abstractmethod
    def measure_original(self) -> Metrics:
        """Return the metrics of the model without quantisation."""

    def units(self, configuration: Configuration) -> Sequence[Unit]:
        """Return the units that the model has in a configuration; a model of another shape may lack some."""
        return self.space.units

    def training_options(self, configuration: Configuration) -> Mapping[str, Any]:
        """Return the options of `ch train` that a trial is trained with; empty if trials are not trained."""
        return {}

    def trained_graphs(self, configuration: Configuration) -> tuple[MaseGraph, MaseGraph] | None:
        """Return the original graph and the quantised, trained one; None if trials are not trained."""
        return None

    def as_unitwise(self) -> UnitwiseProblem:
        """Return this problem as one whose units can be measured one by one; raise ValueError if it trains."""
        raise ValueError(
            f"units can be measured one by one only without training; use the space '{PTQ}', or strategy 'optuna'"
        )


@dataclass(frozen=True)
class QuantizedUnit:
    """A unit in one of its configs: what replaces its nodes, and what that changes in the costs."""

    replacements: Mapping[fx.Node, Callable[..., Any]]
    cost_change: CostChange


class UnitwiseProblem(Problem):
    """A problem without training, in which each unit can be measured in each config separately."""

    evaluator: Evaluator
    training_rows: Rows | None
    """Rows for strategies that learn from data; no metric is measured on them."""

    @abstractmethod
    def costs(self, configuration: Configuration) -> Metrics:
        """Return the cost metrics of a configuration; units that it does not name are not quantised."""

    @abstractmethod
    def replacements(self, configuration: Configuration) -> dict[fx.Node, Callable[..., Any]]:
        """Return what replaces each node in a configuration."""

    @abstractmethod
    def quantized_unit(self, unit: Unit, config: Mapping[str, Any]) -> QuantizedUnit:
        """Return a unit in a config; raise ValueError if a format does not allow it."""

    def as_unitwise(self) -> UnitwiseProblem:
        return self
