"""What a configuration asks a search to do: strategy, objectives, and how trials are measured."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from chop.config import SearchConfig
from chop.config.search import SearchTable, SpaceSetup, SpaceTable, StrategyTable
from chop.dataset import Rows
from chop.models import get_model_info
from chop.options import read_options
from chop.registry import closest
from chop.runs import Experiment
from chop.searching.evaluation import COST_RUNNERS, BasicEvaluation, CostRunner
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import PTQ, QAT, Problem
from chop.searching.evaluation.ptq import RUNG_SHARES, MethodProblem, PTQProblem, known_methods
from chop.searching.evaluation.qat import QATProblem
from chop.searching.evaluation.software_runners import SEARCHABLE_OPTIONS, BasicTrain, check_training_choices
from chop.searching.space import read_space
from chop.searching.space.space import METHOD, MODEL, TRAINING, read_option_choices
from chop.searching.strategies import STRATEGIES, Strategy
from chop.training.budget import Budget, without_held_back

logger = logging.getLogger(__name__)

EVALUATION, TRAIN = "basic_evaluation", "basic_train"
DEFAULT_OPS = ("linear", "conv1d", "conv2d")
"""Ops that multiply by weights, which make up nearly all of the cost."""
DEFAULT_WIDTHS = [2, 3, 4, 5, 6, 7, 8]
DEFAULT_BIAS_WIDTH = 8


def default_table() -> SearchTable:
    """Return the `[search]` table that is used if there is none.

    It tries fixed-point numbers of 2 to 8 bits for the weights and inputs of each layer, with strategy `ilp`.
    """
    config = {
        "name": "integer",
        "data_in_width": DEFAULT_WIDTHS,
        "data_in_frac_width": ["auto"],
        "weight_width": DEFAULT_WIDTHS,
        "weight_frac_width": ["auto"],
        "bias_width": DEFAULT_BIAS_WIDTH,
        "bias_frac_width": ["auto"],
    }
    space = SpaceTable(setup=SpaceSetup("type"), seed={op: {"config": config} for op in DEFAULT_OPS})
    return SearchTable(space, StrategyTable(name="ilp", setup={"n_trials": 40}))


@dataclass(frozen=True)
class SearchSpec:
    """What the `[search]` table asks for, read and checked before anything is loaded."""

    config: SearchConfig
    strategy: Strategy
    objectives: Objectives
    evaluation: BasicEvaluation
    training: BasicTrain
    cost_runners: tuple[CostRunner, ...]

    @classmethod
    def read(cls, config: SearchConfig) -> SearchSpec:
        """Read the `[search]` table; every error in it is raised here, except for unknown nodes."""
        config = replace(config, search=_with_defaults(config.search))
        table, where = config.search.strategy, "search.strategy"
        _check_names(table.sw_runner, (EVALUATION, TRAIN), f"{where}.sw_runner")
        _check_names(table.hw_runner, COST_RUNNERS, f"{where}.hw_runner")
        _check_space(config)
        kind = STRATEGIES[table.name]
        command_line = {"n_trials": config.n_trials, "timeout": config.timeout}
        given = {key: value for key, value in command_line.items() if value is not None}
        setup = {"halving": trains(config), **table.setup, **given}
        _check_keys_of_strategy(table.name, setup, f"{where}.setup")
        strategy = read_options(kind, kind.with_defaults(setup), f"{where}.setup")
        if trains(config) and not strategy.supports_training:
            raise ValueError(
                f"strategy '{table.name}' does not train configurations: use it with space '{PTQ}', or use "
                "strategy 'optuna'"
            )
        if config.search.search_space.method and not strategy.supports_training:
            raise ValueError(
                f"strategy '{table.name}' measures layers one by one, but methods change them together: use "
                "strategy 'optuna' with search.search_space.method"
            )
        return cls(
            config,
            strategy,
            Objectives.read(table.metrics, sum_scaled=strategy.sum_scaled_metrics, direction=strategy.direction),
            read_options(BasicEvaluation, table.sw_runner.get(EVALUATION), f"{where}.sw_runner.{EVALUATION}"),
            read_options(BasicTrain, table.sw_runner.get(TRAIN), f"{where}.sw_runner.{TRAIN}"),
            _read_cost_runners(table),
        )

    def problem(self, experiment: Experiment | None = None) -> Problem:
        """Return the space with its model and data, ready to be measured; they are loaded if not given."""
        loaded = experiment or Experiment.load(self.config)
        rows = self.rows(loaded)
        problem = self.strategy.own_problem(self, loaded)
        if problem is None and trains(self.config):
            problem = QATProblem(self.config, loaded, self.training, rows, self.cost_runners)
        elif problem is None:
            problem = self._ptq_problem(loaded, rows)
        if not problem.space.parts:
            raise ValueError("search.search_space.seed quantises no node; give at least one of them a format")
        return problem

    @property
    def trains(self) -> bool:
        """Whether trials are trained, by the strategy or before each is measured."""
        return self.strategy.trains or trains(self.config)

    @property
    def holds_rows_back(self) -> bool:
        """Whether trials are measured on half of the validation rows: no other rows are unknown to trained ones."""
        return self.config.max_drop is not None and self.trains and self.evaluation.on_validation_rows

    def rows(self, experiment: Experiment) -> Rows:
        """Return the rows that trials are measured on."""
        rows = self.evaluation.rows(experiment.data)
        return without_held_back(rows) if self.holds_rows_back else rows

    def budget(self, experiment: Experiment, problem: Problem) -> Budget | None:
        """Return the budget of `max_drop` with the rows that it is checked on; None without it."""
        if self.config.max_drop is None:
            return None
        num_rows, splits = self.evaluation.num_samples, experiment.data.splits
        original = problem.correct(None)
        return Budget.on(self.config.max_drop, splits, num_rows, original, trains=self.trains)

    def _ptq_problem(self, experiment: Experiment, rows: Rows) -> Problem:
        graph = experiment.annotated_graph()
        metas = graph.annotated_metas()
        space = read_space(self.config.search.search_space, metas)
        num_batches = round(1 / RUNG_SHARES[0]) if self.strategy.halving else 1
        compiles = self.config.compile
        evaluator = Evaluator(graph, experiment.arguments, rows, num_batches=num_batches, compiles=compiles)
        costs = Costs(metas, self.cost_runners)
        if not self.config.search.search_space.method:
            return PTQProblem(space, evaluator, costs)
        return MethodProblem(self.config, experiment, self.cost_runners, space, evaluator, costs)

    def warn(self, experiment: Experiment) -> None:
        """Warn about options that are probably a mistake."""
        if not trains(self.config):
            experiment.warn_if_untrained()
        experiment.warn_if_quantized()
        if not (self.config.search.strategy.eval_mode or trains(self.config)):
            logger.warning("eval_mode = false has no effect: accuracy is measured in evaluation mode")


def trains(config: SearchConfig) -> bool:
    """Return whether each configuration is trained before it is measured."""
    return config.search.search_space.name == QAT or TRAIN in config.search.strategy.sw_runner


def _with_defaults(table: SearchTable) -> SearchTable:
    """Return the table with the default space if it has none, and the default strategy if it is empty."""
    if table == SearchTable():
        return default_table()
    if table.search_space == SpaceTable():
        return replace(table, search_space=default_table().search_space)
    return table


def _check_space(config: SearchConfig) -> None:
    """Check the name of the space, the choices of training and model options, which need training, and methods."""
    space, where = config.search.search_space, "search.search_space"
    _check_names((space.name,), (PTQ, QAT), where)
    choices = {part.name: part.values for part in read_option_choices(space)}
    for name in choices:
        part = name.strip("[]")
        if name == METHOD and trains(config):
            raise ValueError(f"{where}.{part} is for searches without training: set name = '{PTQ}'")
        if name != METHOD and not trains(config):
            raise ValueError(f"{where}.{part} needs training in the loop: set name = '{QAT}'")
    _check_names(space.method, known_methods(), f"{where}.method")
    if TRAINING in choices:
        _check_names(choices[TRAINING], SEARCHABLE_OPTIONS, f"{where}.training")
        check_training_choices(choices[TRAINING], f"{where}.training")
    if MODEL in choices:
        known = get_model_info(config.model).options
        if not known:
            raise ValueError(f"{where}.model: model '{config.model}' has no options to choose from")
        _check_names(choices[MODEL], known, f"{where}.model")
        if config.load_name is not None:
            raise ValueError(
                f"{where}.model changes the model's shape, so weights cannot be loaded; remove '{config.load_name}'"
            )


def _check_keys_of_strategy(name: str, setup: Mapping[str, object], where: str) -> None:
    """Raise ValueError for a key that belongs to another strategy, such as `sampler` with `ilp`."""
    keys = {strategy: {each.name for each in fields(kind)} for strategy, kind in STRATEGIES.items()}
    for key in setup:
        owners = [strategy for strategy, known in keys.items() if key in known]
        if owners and name not in owners:
            raise ValueError(
                f"{where}: '{key}' is a key of strategy {' and '.join(map(repr, owners))}, not of '{name}'; remove "
                f"it, or set name = '{owners[0]}'"
            )


def _read_cost_runners(table: StrategyTable) -> tuple[CostRunner, ...]:
    """Return the cost runners that every search has, and those that it asks for.

    A study can be resumed only with the same ones.
    """
    return tuple(
        read_options(runner, table.hw_runner.get(name), f"search.strategy.hw_runner.{name}")
        for name, runner in COST_RUNNERS.items()
        if runner.is_default
        or name in table.hw_runner
        or any(each.name in table.metrics for each in runner.metrics)
    )


def _check_names(given: Iterable[str], known: Iterable[str] | Mapping[str, object], where: str) -> None:
    names = [*known]
    for name in given:
        if name not in names:
            raise ValueError(f"{where}: unknown name '{name}'; {closest(name, names)}")
