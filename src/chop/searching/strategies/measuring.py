"""The base of strategies that measure the candidates of each unit one by one, and the costs of candidates."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from chop.config import option
from chop.display.progress import ProgressBar
from chop.searching.evaluation.cost_runners import COST_RUNNERS
from chop.searching.evaluation.objectives import Objectives, is_cost, known_metrics, pareto_front
from chop.searching.evaluation.problem import PTQ, Problem
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.space import Configuration, Label, Params, Space, Unit
from chop.searching.strategies.base import Strategy

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


@dataclass(frozen=True)
class MeasuringStrategy(Strategy):
    """A strategy that measures the error of each candidate of each unit."""

    harm: ErrorKind = "loss"
    """The kind of error to measure: the loss, or the difference of the output, which needs no labels."""
    remeasure: int = option(1, least=1, help="steps after which all candidates are measured again")


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
        self._problem, self._metric = problem, metric
        self.original = problem.costs({})[metric]
        self._known: dict[tuple[str, object], float] = {}

    def __call__(self, candidate: Candidate) -> float:
        key = (candidate.unit, tuple(candidate.params.items()))
        if key not in self._known:
            costs = self._problem.costs({candidate.unit: candidate.config})
            self._known[key] = costs[self._metric] - self.original
        return self._known[key]

    def most_expensive(self, candidates: Mapping[str, Sequence[Candidate]]) -> dict[str, Candidate]:
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
