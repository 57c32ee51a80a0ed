"""Methods for low bit widths as a dimension of a search: each trial is quantised, then changed by its method."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from chop.config import SearchConfig
from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.ir.graph.meta import annotated_batch_size
from chop.passes import PASSES
from chop.passes.base import arguments_of
from chop.passes.graph.transforms.low_bits.layers import CalibrationArgs
from chop.runs import Experiment
from chop.searching.evaluation.cost_runners import CostRunner
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.problem import Metrics, Problem, ShouldContinue
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.evaluation.transform_config import transform_config
from chop.searching.space import Configuration, Space
from chop.searching.space.space import METHOD, NEAREST
from chop.transforming.pipeline import pass_messages_from, run_passes


def known_methods() -> list[str]:
    """Return the methods that a search may choose from: rounding to nearest, and passes that look at data."""
    passes = [name for name, run in PASSES.items() if issubclass(arguments_of(run), CalibrationArgs)]
    return [NEAREST, *passes]


class MethodProblem(Problem):
    """Formats of the units of one graph, and the method that rounds its weights."""

    def __init__(
        self, config: SearchConfig, experiment: Experiment, rounded: PTQProblem, runners: Sequence[CostRunner]
    ) -> None:
        self._config, self._experiment, self._rounded, self._runners = config, experiment, rounded, runners
        self._rows: Rows = rounded.evaluator.rows
        self.space: Space = rounded.space

    @property
    def num_rows(self) -> int:
        return self._rounded.num_rows

    @property
    def rungs(self) -> dict[int, int]:
        return {}

    def measure(self, configuration: Configuration, should_continue: ShouldContinue | None = None) -> Metrics:
        if configuration[METHOD]["method"] == NEAREST:
            return self._rounded.measure(configuration)
        graph = self._changed(configuration)
        metas = graph.annotated_metas()
        costs = Costs(metas, self._runners, annotated_batch_size(metas)).total(())
        found = Evaluator(graph, self._experiment.arguments, self._rows).evaluate({})
        return {"accuracy": found.accuracy, "loss": found.loss, **costs, "num_rows": found.num_rows}

    def measure_original(self) -> Metrics:
        return self._rounded.measure_original()

    def _changed(self, configuration: Configuration) -> MaseGraph:
        """Return the graph as `ch transform` makes it from the configuration."""
        passes = transform_config(self._config, self.space.units, configuration).passes
        with pass_messages_from(logging.ERROR):
            return run_passes(passes, self._rounded.evaluator.graph, self._experiment).graph
