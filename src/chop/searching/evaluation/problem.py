"""Problems: a search space together with a way to measure its configurations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chop.ir import MaseGraph
from chop.searching.space import Configuration, Space, Unit
from chop.training.budget import Correct

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

    @abstractmethod
    def correct(self, configuration: Configuration | None) -> Correct:
        """Return what says which predictions are right with a configuration; None: with the original model."""

    def units(self, configuration: Configuration) -> Sequence[Unit]:
        """Return the units that the model has in a configuration; a model of another shape may lack some."""
        return self.space.units

    def training_options(self, configuration: Configuration) -> Mapping[str, Any]:
        """Return the options of `ch train` that a trial is trained with; empty if trials are not trained."""
        return {}

    def trained_graphs(self, configuration: Configuration) -> tuple[MaseGraph, MaseGraph] | None:
        """Return the original graph and the quantised, trained one; None if trials are not trained."""
        return None
