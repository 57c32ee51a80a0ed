"""The problem of strategy `learned` with widths per channel or element: which step of one training run to take."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from chop.config import SearchConfig, WidthTrainingOptions
from chop.dataset import Rows
from chop.formats.integer import Integer
from chop.ir import MaseGraph
from chop.ir.graph.meta import annotated_batch_size
from chop.runs import Experiment
from chop.searching.evaluation.cost_runners import CostRunner
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.problem import Metrics, Problem, ShouldContinue
from chop.searching.space import Configuration, Space, Unit, read_space
from chop.searching.space.space import OptionChoices
from chop.searching.strategies.learned_layers import CostTerm
from chop.searching.strategies.learned_training import (
    StartingWidths,
    WidthTraining,
    learnable,
)
from chop.tasks import Evaluation
from chop.training.batches import evaluation_batches
from chop.training.devices import pick_device
from chop.training.evaluation import evaluate

LEARNED, STEP = "[learned]", "step"
FORMAT = "integer"


class LearnedFrontProblem(Problem):
    """Quantised graphs after each step of a training run in which cost becomes more and more important.

    The space of the configuration file says which nodes are quantised, and the largest widths.
    """

    def __init__(
        self,
        config: SearchConfig,
        experiment: Experiment,
        rows: Rows,
        runners: Sequence[CostRunner],
        options: WidthTrainingOptions,
        cost: CostTerm,
    ) -> None:
        self._config, self._experiment, self._rows, self._runners = config, experiment, rows, runners
        self._original = experiment.annotated_graph()
        self._options = options
        units = read_space(config.search.search_space, self._original.annotated_metas()).units
        train, widths = experiment.data.splits.train, _starting_widths(units)
        self._training = WidthTraining(
            self._original, experiment.arguments, train, widths, options, cost, config.seed
        )
        self.space = Space((), (OptionChoices(LEARNED, {STEP: tuple(range(1, options.steps + 1))}),))

    @property
    def num_rows(self) -> int:
        return len(self._rows.labels)

    @property
    def rungs(self) -> Mapping[int, int]:
        return {}

    def measure(self, configuration: Configuration, should_continue: ShouldContinue | None = None) -> Metrics:
        step = int(configuration[LEARNED][STEP])
        graph = self._training.graph_at(step)
        epochs = step * self._options.batch_size / len(self._experiment.data.splits.train.labels)
        return {**self._metrics(graph), "epochs": epochs}

    def measure_original(self) -> Metrics:
        return self._metrics(self._original)

    def trained_graphs(self, configuration: Configuration) -> tuple[MaseGraph, MaseGraph]:
        return self._original, self._training.graph_at(int(configuration[LEARNED][STEP]))

    def _metrics(self, graph: MaseGraph) -> Metrics:
        found, metas = self._evaluate(graph), graph.annotated_metas()
        costs = Costs(metas, self._runners, annotated_batch_size(metas)).total(())
        return {"accuracy": found.accuracy, "loss": found.loss, **costs}

    def _evaluate(self, graph: MaseGraph) -> Evaluation:
        device = pick_device(self._config.accelerator)
        batches = evaluation_batches(self._rows, self._config.batch_size)
        meter, arguments = self._experiment.meter(device), self._experiment.arguments
        return evaluate(copy.deepcopy(graph.model).to(device), batches, meter, device, arguments=arguments)


def _starting_widths(units: Sequence[Unit]) -> dict[str, StartingWidths]:
    """Return the widths that each node starts with: the largest ones that its seed offers."""
    found: dict[str, StartingWidths] = {}
    for unit in units:
        formats = {name for key in ("name", *unit.choices.format_keys) for name in unit.choices.values(key)}
        if formats != {FORMAT}:
            raise ValueError(
                f"strategy 'learned' learns the widths of format '{FORMAT}', but '{unit.name}' may have others; "
                f"offer '{FORMAT}' only"
            )
        found |= {meta.node.name: _widest(unit) for meta in unit.metas if learnable(meta)}
    if not found:
        raise ValueError(
            "strategy 'learned' learns widths of linear layers, convolutions and batch norms: the space has none"
        )
    _check_shared(units)
    return found


def _widest(unit: Unit) -> StartingWidths:
    choices = unit.choices

    def largest(role: str) -> int:
        key = f"{role}_width" if f"{role}_width" in choices.config else "data_in_width"  # inherited, as in a config
        if key not in choices.config:
            return Integer().width
        key = choices.followed_key(key) or key
        return int(max(choices.values(key, key.removesuffix("_width"), FORMAT)))

    return StartingWidths(largest("weight"), largest("data_in"))


def _check_shared(units: Sequence[Unit]) -> None:
    for unit in units:
        if len(unit.metas) > 1 and learnable(unit.metas[0]):
            names = " and ".join(f"'{meta.node.name}'" for meta in unit.metas)
            raise ValueError(f"nodes {names} call the same layer, which strategy 'learned' does not support")
