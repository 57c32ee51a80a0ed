"""What each unit may be, what that costs, and how much it harms the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch

from chop.searching.evaluation import COST_RUNNERS, BasicEvaluation
from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.evaluation.ptq import Problem
from chop.searching.space import Params, Space, Unit
from chop.searching.space.dimension import Label
from chop.searching.space.space import Configs
from chop.searching.strategies.base import Strategy

HarmBy = Literal["loss", "output"]
MOST = 20_000
"""Configurations of one unit that are looked at; more than anyone waits for."""
ADDING_UP = {"memory_density": "average_bitwidth"}
"""Costs that do not add up over units, and one which does and goes with it."""
T = TypeVar("T")


@dataclass(frozen=True)
class HarmStrategy(Strategy):
    """A strategy that measures how much each choice harms the model."""

    harm: HarmBy = "loss"
    """What is to rise least: the loss, or the error of the output, which needs no labels."""
    remeasure: int = 1
    """Steps after which all choices are measured anew."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.remeasure < 1:
            raise ValueError(f"'remeasure' must be at least 1, got {self.remeasure}")


@dataclass(frozen=True)
class Choice:
    """One configuration of a unit."""

    unit: str
    point: Params
    """Its part of a point of the space."""
    config: Mapping[str, Any]


Chosen = Mapping[str, Choice]
"""One choice for each unit, by its name."""


def untrained(problem: Measurable, who: str) -> Problem:
    """A problem whose points are measured without training; the only kind that can be looked into."""
    if not isinstance(problem, Problem):
        raise ValueError(
            f"strategy '{who}' measures layers one by one, without training; take the space "
            "'graph/quantize/mixed_precision_ptq', or strategy 'optuna'"
        )
    return problem


def configs_of(chosen: Chosen) -> dict[str, Mapping[str, Any]]:
    return {name: choice.config for name, choice in chosen.items()}


def point_of(chosen: Chosen) -> dict[str, Label]:
    """The point of the space at which all of these are chosen."""
    return {name: label for choice in chosen.values() for name, label in choice.point.items()}


def choices_of(problem: Problem, who: str) -> dict[str, list[Choice]]:
    """All configurations of each unit, but for combinations that a format does not allow."""
    return {unit.name: _choices(problem, unit, who) for unit in problem.space.units}


def _choices(problem: Problem, unit: Unit, who: str) -> list[Choice]:
    if unit.seed.num_points > MOST:
        raise ValueError(
            f"'{unit.name}' has {unit.seed.num_points} configurations and strategy '{who}' looks at each of them; "
            f"at most {MOST} are sensible: offer fewer choices, or take strategy 'optuna'"
        )
    alone = Space((unit,))
    found, problems = [], []
    for point in alone.points():
        choice = Choice(unit.name, point, alone.configs(point)[unit.name])
        try:
            problem.option(unit, choice.config)
        except ValueError as error:
            problems.append(str(error))
        else:
            found.append(choice)
    if not found:
        raise ValueError(f"no configuration of '{unit.name}' is allowed: {problems[0]}")
    return found


def cost_metrics(objectives: Objectives, who: str) -> list[str]:
    """The costs among the metrics; each adds up over units."""
    found = []
    for each in objectives.each:
        if each.name in BasicEvaluation.metrics:
            continue
        if not _is_to_fall(each):
            raise ValueError(f"strategy '{who}' makes models cheaper; '{each.name}' is to become dearer")
        found.append(ADDING_UP.get(each.name, each.name))
    if not found:
        known = [name for runner in COST_RUNNERS.values() for name in runner.metrics]
        raise ValueError(f"strategy '{who}' needs a cost among the metrics; there are {', '.join(known)}")
    return list(dict.fromkeys(found))


def _is_to_fall(objective: Objective) -> bool:
    """Whether a cost is to fall, seen from the metric that adds up."""
    falls = (objective.direction == "minimize") == (objective.scale > 0)
    return falls != (objective.name in ADDING_UP)


class Price:
    """What choices add to one cost of the model as it is."""

    def __init__(self, problem: Problem, metric: str) -> None:
        self._problem, self._metric = problem, metric
        self.plain = problem.costs({})[metric]
        self._known: dict[tuple[str, object], float] = {}

    def total(self, configs: Configs) -> float:
        return self._problem.costs(configs)[self._metric]

    def __call__(self, choice: Choice) -> float:
        key = (choice.unit, tuple(choice.point.items()))
        if key not in self._known:
            self._known[key] = self.total({choice.unit: choice.config}) - self.plain
        return self._known[key]

    def widest(self, choices: Mapping[str, Sequence[Choice]]) -> dict[str, Choice]:
        """The dearest choice of every unit; of equal ones, the first."""
        return {name: max(each, key=self) for name, each in choices.items()}


class Harm:
    """What configurations do to the model: its loss, or how far its output is from that in float.

    The second needs no labels: it is the energy of the difference over that of the output.
    """

    def __init__(self, problem: Problem, by: HarmBy, num_rows: int | None = None) -> None:
        self._problem, self._by = problem, by
        self._evaluator = problem.evaluator if num_rows is None else problem.evaluator.on_fewer(num_rows)
        self._plain = self._evaluator.outputs({}) if by == "output" else []
        self._energy = sum(output.double().square().sum().item() for output in self._plain)

    def __call__(self, configs: Configs) -> float:
        """Infinite where the model gives no numbers any more."""
        replaced = self._problem.replaced(configs)
        if self._by == "loss":
            found = self._evaluator.evaluate(replaced).loss
        else:
            found = self._difference(self._evaluator.outputs(replaced))
        return found if math.isfinite(found) else math.inf

    def _difference(self, outputs: Iterable[torch.Tensor]) -> float:
        pairs = zip(outputs, self._plain, strict=True)
        noise = sum((ours.double() - plain.double()).square().sum().item() for ours, plain in pairs)
        return noise / self._energy if self._energy else noise


@dataclass(frozen=True)
class Rated:
    """A choice, what it adds to the cost of the model as it is, and to the harm."""

    choice: Choice
    cost: float
    harm: float


def unbeaten(rated: Iterable[Rated]) -> list[Rated]:
    """Those that no other equals at lower cost or beats at the same, the cheapest first."""
    kept: list[Rated] = []
    for each in sorted(rated, key=lambda each: (each.cost, each.harm)):
        if not kept or each.harm < kept[-1].harm:
            kept.append(each)
    return kept


def distinct(points: Iterable[Params]) -> list[Params]:
    """Each point once, in the order in which they came."""
    return [dict(items) for items in dict.fromkeys(tuple(point.items()) for point in points)]


def thinned(items: Sequence[T], most: int) -> list[T]:
    """At most so many of them, evenly from the first to the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / max(1, most - 1))] for place in range(most)]
