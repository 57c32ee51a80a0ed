"""From a configuration to a problem that can be searched."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from chop.config import SearchConfig
from chop.config.search import SearchTable, SpaceTable, StrategyTable
from chop.models import get_model_info
from chop.options import read_options
from chop.registry import closest
from chop.runs import Experiment
from chop.searching.default import default_search
from chop.searching.evaluation import COST_RUNNERS, BasicEvaluation, CostRunner
from chop.searching.evaluation.basic_train import TUNABLE, BasicTrain, check_choices
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.evaluation.ptq import RUNGS, Problem
from chop.searching.evaluation.qat import TrainingProblem
from chop.searching.space import read_seeds
from chop.searching.space.space import MODEL, TRAINING, read_settings
from chop.searching.strategies import STRATEGIES, Strategy
from chop.searching.strategies.optuna import OptunaStrategy

logger = logging.getLogger(__name__)

PTQ, QAT = "graph/quantize/mixed_precision_ptq", "graph/quantize/mixed_precision_qat"
"""The spaces by name: weights as they are, or trained for a while in each configuration."""
EVALUATION, TRAIN = "basic_evaluation", "basic_train"


@dataclass(frozen=True)
class Plan:
    """How a configuration wants to be searched; read before anything is loaded."""

    config: SearchConfig
    strategy: Strategy
    objectives: Objectives
    evaluation: BasicEvaluation
    training: BasicTrain
    costs: tuple[CostRunner, ...]

    @classmethod
    def read(cls, config: SearchConfig) -> Plan:
        """Everything that can be wrong with the `[search]` table, but for the names of nodes, is told here."""
        config = replace(config, search=_filled(config.search))
        table, where = config.search.strategy, "search.strategy"
        _check_names(table.sw_runner, (EVALUATION, TRAIN), f"{where}.sw_runner")
        _check_names(table.hw_runner, COST_RUNNERS, f"{where}.hw_runner")
        _check_space(config)
        strategy = read_options(STRATEGIES[table.name], _setup(config), f"{where}.setup")
        if trains(config) and not isinstance(strategy, OptunaStrategy):
            raise ValueError(
                f"strategy '{table.name}' is for weights as they are (name = '{PTQ}'); where each configuration is "
                "trained, use 'optuna'"
            )
        runners = {name: table.sw_runner.get(name) for name in (EVALUATION, TRAIN)}
        return cls(
            config,
            strategy,
            Objectives.read(table.metrics, sum_scaled=strategy.sum_scaled_metrics, direction=strategy.direction),
            read_options(BasicEvaluation, runners[EVALUATION], f"{where}.sw_runner.{EVALUATION}"),
            read_options(BasicTrain, runners[TRAIN], f"{where}.sw_runner.{TRAIN}"),
            _read_costs(table),
        )

    def problem(self, experiment: Experiment | None = None) -> Measurable:
        """The model and the data, ready to be measured."""
        loaded = experiment or Experiment.load(self.config)
        rows = self.evaluation.rows(loaded.data)
        made: Measurable
        if trains(self.config):
            made = TrainingProblem(self.config, loaded, self.training, rows, self.costs)
        else:
            graph = loaded.annotated_graph()
            metas = graph.annotated_metas()
            space = read_seeds(self.config.search.search_space, metas)
            num_batches = round(1 / RUNGS[0]) if self.strategy.halving else 1
            evaluator = Evaluator(graph, loaded.model_info.inputs[0], rows, num_batches=num_batches)
            costs = Costs(metas, self.costs, metas[0].results["data_out_0"].shape[0])
            made = Problem(space, evaluator, costs, loaded.data.splits.train)
        if not made.space.parts:
            raise ValueError("search.search_space.seed leaves every node alone; name a format for some of them")
        return made

    def warn(self) -> None:
        """Tell what is seldom meant."""
        if self.config.load_name is None and not trains(self.config):
            logger.warning(
                "no checkpoint is loaded: these are fresh weights of '%s'; --load names one", self.config.model
            )
        if not (self.config.search.strategy.eval_mode or trains(self.config)):
            logger.warning("eval_mode = false: accuracy is measured in evaluation mode all the same")


def _filled(table: SearchTable) -> SearchTable:
    """With the usual space where there is none, and the usual strategy where there is nothing at all."""
    if table == SearchTable():
        return default_search()
    if table.search_space == SpaceTable():
        return replace(table, search_space=default_search().search_space)
    return table


def trains(config: SearchConfig) -> bool:
    """Whether each configuration is trained before it is measured."""
    return config.search.search_space.name == QAT or TRAIN in config.search.strategy.sw_runner


def _check_space(config: SearchConfig) -> None:
    """Choices of the training and of the model are for a space that trains, and must be known."""
    space, where = config.search.search_space, "search.search_space"
    _check_names((space.name,), (PTQ, QAT), where)
    choices = {part.name: part.choices for part in read_settings(space)}
    for name in choices:
        if not trains(config):
            part = name.strip("[]")
            raise ValueError(f"{where}.{part} needs a training of each configuration: name = '{QAT}'")
    if TRAINING in choices:
        _check_names(choices[TRAINING], TUNABLE, f"{where}.training")
        check_choices(choices[TRAINING], f"{where}.training")
    if MODEL in choices:
        known = get_model_info(config.model).options
        if not known:
            raise ValueError(f"{where}.model: model '{config.model}' has no options to choose from")
        _check_names(choices[MODEL], known, f"{where}.model")
        if config.load_name is not None:
            raise ValueError(f"{where}.model needs fresh weights for each shape; leave out '{config.load_name}'")


def _setup(config: SearchConfig) -> dict[str, object]:
    """`[search.strategy.setup]`, with what the command line says above it."""
    above = {"n_trials": config.n_trials, "timeout": config.timeout}
    given = {key: value for key, value in above.items() if value is not None}
    return {"halving": trains(config), **config.search.strategy.setup, **given}


def _read_costs(table: StrategyTable) -> tuple[CostRunner, ...]:
    return tuple(
        read_options(runner, table.hw_runner.get(name), f"search.strategy.hw_runner.{name}")
        for name, runner in COST_RUNNERS.items()
    )


def _check_names(given: Iterable[str], known: Iterable[str] | Mapping[str, object], where: str) -> None:
    names = [*known]
    for name in given:
        if name not in names:
            raise ValueError(f"{where}: unknown name '{name}', {closest(name, names)}")
