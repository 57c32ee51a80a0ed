"""The base of strategies that measure the candidates of each unit one by one, and the costs of candidates."""

from __future__ import annotations

import logging
import math
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from chop.config import option
from chop.display.progress import ProgressBar
from chop.searching.evaluation.cost_runners import COST_RUNNERS
from chop.searching.evaluation.objectives import Objectives, is_cost, known_metrics, pareto_front
from chop.searching.evaluation.problem import PTQ, Problem
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.space import Configuration, Label, Params, Space, Unit
from chop.searching.space.dimension import distinct_params
from chop.searching.strategies.base import Strategy

logger = logging.getLogger(__name__)

MAX_CANDIDATES_PER_UNIT = 20_000
ErrorKind = Literal["loss", "output"]
PLANNING_SHARE = 0.5
"""The share of `timeout` that planning may take; the rest is for the trials."""
T = TypeVar("T")


def as_unitwise(problem: Problem) -> PTQProblem:
    """Return a problem whose units can be measured one by one; raise ValueError if it trains."""
    if not isinstance(problem, PTQProblem):
        raise ValueError(
            f"units can be measured one by one only without training; use the space '{PTQ}', or strategy 'optuna'"
        )
    return problem


class PlanningTimeoutError(Exception):
    """The time for planning is over: no more candidates are measured."""


class PlanningClock:
    """Shows how many configurations were measured for a plan, and ends the planning when its time is over."""

    def __init__(self, name: str, timeout: float | None) -> None:
        self._end = math.inf if timeout is None else time.monotonic() + PLANNING_SHARE * timeout
        self._progress = ProgressBar(f"{name}: planning, configurations measured:", None)
        self.is_over = False

    def step(self) -> None:
        """Count a measurement that is about to begin; raise PlanningTimeoutError if it is too late for it."""
        self.is_over = self.is_over or time.monotonic() > self._end
        if self.is_over:
            raise PlanningTimeoutError
        self._progress.step()

    def __enter__(self) -> PlanningClock:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.close()


class ErrorMeasure:
    """The error of a configuration: its loss, or how far its output is from that of the original model.

    The second is the energy of the difference divided by the energy of the original output.
    """

    def __init__(
        self, problem: PTQProblem, kind: ErrorKind, clock: PlanningClock, num_rows: int | None = None
    ) -> None:
        """Measure on the first `num_rows` rows; None: on all."""
        self._problem, self._kind, self._clock = problem, kind, clock
        self._evaluator = problem.evaluator if num_rows is None else problem.evaluator.on_first_rows(num_rows)
        self._original = self._evaluator.outputs({}) if kind == "output" else []
        self._energy = sum(output.double().square().sum().item() for output in self._original)

    def of_outputs(self, num_rows: int) -> ErrorMeasure:
        """Return the same measure for the output on the first rows, which takes less time."""
        return ErrorMeasure(self._problem, "output", self._clock, num_rows)

    def __call__(self, configuration: Configuration) -> float:
        """Return the error; infinity if the model's output is not finite.

        Raise PlanningTimeoutError if the time for planning is over.
        """
        self._clock.step()
        replacements = self._problem.replacements(configuration)
        if self._kind == "loss":
            error = self._evaluator.evaluate(replacements).loss
        else:
            pairs = zip(self._evaluator.outputs(replacements), self._original, strict=True)
            noise = sum((output.double() - original.double()).square().sum().item() for output, original in pairs)
            error = noise / self._energy if self._energy else noise
        return error if math.isfinite(error) else math.inf


@dataclass(frozen=True)
class Candidate:
    """One possible config of a unit."""

    unit: str
    params: Params
    """The choices of this unit only."""
    config: Mapping[str, Any]


Candidates = Mapping[str, Sequence[Candidate]]
"""The candidates of each unit, by its name."""
Assignment = Mapping[str, Candidate]
"""A candidate for each unit, by the unit's name."""


def configuration_of(assignment: Assignment) -> dict[str, Mapping[str, Any]]:
    """Return the configuration in which each unit has its assigned candidate."""
    return {name: candidate.config for name, candidate in assignment.items()}


def params_of(assignment: Assignment) -> dict[str, Label]:
    """Return the params of the configuration in which each unit has its assigned candidate."""
    return {name: label for candidate in assignment.values() for name, label in candidate.params.items()}


def find_candidates(problem: PTQProblem, strategy: str) -> dict[str, list[Candidate]]:
    """Return all candidates by unit, without combinations that a format does not allow."""
    return {unit.name: _candidates(problem, unit, strategy) for unit in problem.space.units}


def _candidates(problem: PTQProblem, unit: Unit, strategy: str) -> list[Candidate]:
    if unit.num_configs > MAX_CANDIDATES_PER_UNIT:
        raise ValueError(
            f"'{unit.name}' has {unit.num_configs} configs, and strategy '{strategy}' measures each of them; the "
            f"limit is {MAX_CANDIDATES_PER_UNIT}: offer fewer choices, or use strategy 'optuna'"
        )
    unit_space = Space((unit,))
    found, errors = [], []
    for params in unit_space.all_params():
        candidate = Candidate(unit.name, params, unit_space.configuration(params)[unit.name])
        try:
            problem.quantized_unit(unit, candidate.config)
        except ValueError as error:
            errors.append(str(error))
        else:
            found.append(candidate)
    if not found:
        raise ValueError(f"no config of '{unit.name}' is valid: {errors[0]}")
    return found


def cost_objectives(objectives: Objectives, strategy: str) -> list[str]:
    """Return the cost metrics to reduce, each one that adds up over units."""
    # For each metric that does not add up over units, one that does.
    additive = {name: other for runner in COST_RUNNERS.values() for name, other in runner.additive.items()}
    found = []
    for each in objectives.items:
        if is_cost(each.name):
            # A higher `memory_density` lowers the cost that adds up.
            if each.prefers_lower == (each.name in additive):
                raise ValueError(f"strategy '{strategy}' reduces costs, but objective '{each.name}' increases them")
            found.append(additive.get(each.name, each.name))
    if not found:
        known = ", ".join(name for name in known_metrics() if is_cost(name))
        raise ValueError(f"strategy '{strategy}' needs a cost among the metrics; known: {known}")
    return list(dict.fromkeys(found))


class CandidateCosts:
    """What each candidate adds to one cost metric of the original model."""

    def __init__(self, problem: PTQProblem, metric: str) -> None:
        self._problem, self.metric = problem, metric
        self.original = problem.costs({})[metric]
        self._known: dict[tuple[str, object], float] = {}

    def __call__(self, candidate: Candidate) -> float:
        key = (candidate.unit, tuple(candidate.params.items()))
        if key not in self._known:
            costs = self._problem.costs({candidate.unit: candidate.config})
            self._known[key] = costs[self.metric] - self.original
        return self._known[key]

    def most_expensive(self, candidates: Candidates) -> dict[str, Candidate]:
        """Return the candidate with the highest cost for each unit; of equal ones, the first."""
        return {name: max(each, key=self) for name, each in candidates.items()}


@dataclass(frozen=True)
class RatedCandidate:
    """A candidate, and what it adds to the cost and to the error of the model."""

    candidate: Candidate
    cost: float
    error: float


def pareto_optimal(rated: Iterable[RatedCandidate]) -> list[RatedCandidate]:
    """Return the candidates that are Pareto-optimal in cost and error, the cheapest first."""
    return pareto_front(rated, lambda each: (-each.cost, -each.error))


def evenly_spaced(items: Sequence[T], max_items: int) -> list[T]:
    """Return at most `max_items` of the items, evenly spaced from the first to the last."""
    if len(items) <= max_items:
        return list(items)
    return [items[round(index * (len(items) - 1) / max(1, max_items - 1))] for index in range(max_items)]


@dataclass(frozen=True)
class MeasuringStrategy(Strategy):
    """A strategy that measures the error of each candidate of each unit, and assigns one to each unit."""

    name: ClassVar[str]
    if_over: ClassVar[str]
    """What a plan lacks whose time was over, as the end of a sentence."""

    harm: ErrorKind = "loss"
    """The kind of error to measure: the loss, or the difference of the output, which needs no labels."""
    remeasure: int = option(1, least=1, help="steps after which all candidates are measured again")

    @abstractmethod
    def assignments(
        self, candidates: Candidates, costs: CandidateCosts, error: ErrorMeasure, max_trials: int
    ) -> Iterator[Assignment]:
        """Yield assignments that trade one cost for error."""

    def plan(self, problem: Problem, objectives: Objectives, seed: int) -> Sequence[Params]:
        """Return the assignments for each cost; if there are too many, evenly spaced ones."""
        unitwise = as_unitwise(problem)
        metrics = cost_objectives(objectives, self.name)
        candidates, max_trials = find_candidates(unitwise, self.name), self.n_trials // len(metrics)
        found: list[Params] = []
        with PlanningClock(self.name, self.timeout) as clock:
            error = ErrorMeasure(unitwise, self.harm, clock)
            for metric in metrics:
                costs, params = CandidateCosts(unitwise, metric), []
                with suppress(PlanningTimeoutError):
                    for assignment in self.assignments(candidates, costs, error, max(1, max_trials)):
                        params.append(params_of(assignment))
                found += evenly_spaced(params, max(2, max_trials))
        if clock.is_over:
            logger.warning("%s: 'timeout' ended the planning%s", self.name, self.if_over)
        return distinct_params(found or [params_of(costs.most_expensive(candidates))])
