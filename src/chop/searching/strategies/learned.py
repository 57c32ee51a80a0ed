"""Strategy `learned`: bit widths learned by gradient descent, together with the weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chop.config import WidthTrainingOptions
from chop.formats.integer import Integer
from chop.ir import MaseGraph
from chop.runs import Experiment
from chop.searching.evaluation.costs import costs_of
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Metrics, Problem, ShouldContinue
from chop.searching.space import Configuration, Params, Space, Unit, read_space
from chop.searching.space.space import OptionChoices
from chop.searching.strategies.base import Strategy, register_strategy
from chop.searching.strategies.learned_training import StartingWidths, WidthTraining, learnable, steps_of_trials
from chop.training.budget import Correct
from chop.training.evaluation import correct_on, evaluate_on

if TYPE_CHECKING:
    from chop.searching.spec import SearchSpec

LEARNED, STEP = "[learned]", "step"
FORMAT = "integer"


@register_strategy("learned")
@dataclass(frozen=True)
class Learned(WidthTrainingOptions, Strategy):
    """Widths of integer formats that follow the gradient of loss + beta x cost on training rows, as in HGQ.

    Weights are trained together with a width per channel or element, which becomes 0 where a weight is pruned. One
    run traces a front: beta rises by the same factor at every step. The space says where to start; the graphs after
    evenly spaced steps are trials, whose weights are trained further with these widths.
    """

    trains: ClassVar[bool] = True

    def own_problem(self, spec: SearchSpec, experiment: Experiment) -> Problem:
        return LearnedFrontProblem(self, spec, experiment)

    def plan(self, problem: Problem, objectives: Objectives, seed: int) -> Sequence[Params]:
        return [{f"{LEARNED}/{STEP}": step} for step in steps_of_trials(self.steps, self.n_trials)]


class LearnedFrontProblem(Problem):
    """Quantised graphs after each step of a training run in which cost becomes more and more important.

    The space of the configuration file says which nodes are quantised, and the largest widths.
    """

    def __init__(self, options: WidthTrainingOptions, spec: SearchSpec, experiment: Experiment) -> None:
        self._options, self._spec, self._experiment = options, spec, experiment
        self._rows = spec.rows(experiment)
        self._original = experiment.annotated_graph()
        units = read_space(spec.config.search.search_space, self._original.annotated_metas()).units
        self._training = WidthTraining(
            self._original,
            experiment.arguments,
            experiment.data.splits.train,
            _starting_widths(units),
            options,
            "lut" if any(objective.name == "lut" for objective in spec.objectives.items) else "ebops",
            spec.config.seed,
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
        epochs = step * self._options.batch_size / len(self._experiment.data.splits.train.labels)
        return {**self._metrics(self._training.graph_at(step)), "epochs": epochs}

    def measure_original(self) -> Metrics:
        return self._metrics(self._original)

    def correct(self, configuration: Configuration | None) -> Correct:
        step = None if configuration is None else int(configuration[LEARNED][STEP])
        model = copy.deepcopy((self._original if step is None else self._training.graph_at(step)).model)
        return lambda rows: correct_on(rows, model, self._experiment)

    def trained_graphs(self, configuration: Configuration) -> tuple[MaseGraph, MaseGraph]:
        return self._original, self._training.graph_at(int(configuration[LEARNED][STEP]))

    def _metrics(self, graph: MaseGraph) -> Metrics:
        found = evaluate_on(self._rows, copy.deepcopy(graph.model), self._experiment, self._experiment.device)
        return {"accuracy": found.accuracy, "loss": found.loss, **costs_of(graph, self._spec.cost_runners)}


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
    for unit in units:
        if len(unit.metas) > 1 and learnable(unit.metas[0]):
            names = " and ".join(f"'{meta.node.name}'" for meta in unit.metas)
            raise ValueError(f"nodes {names} call the same layer, which strategy 'learned' does not support")
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
