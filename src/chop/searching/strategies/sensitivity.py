"""Widths lowered one after the other, always where it costs the least."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.space import Params
from chop.searching.strategies.base import register_strategy
from chop.searching.strategies.error_tables import (
    Choice,
    Harm,
    HarmStrategy,
    Price,
    choices_of,
    configs_of,
    cost_metrics,
    distinct,
    point_of,
    thinned,
    untrained,
)

logger = logging.getLogger(__name__)

NAME = "sensitivity"


@register_strategy(NAME)
@dataclass(frozen=True)
class Sensitivity(HarmStrategy):
    """A chain of points from the dearest configuration to the cheapest.

    Each step changes one choice of one unit to the next cheaper one: that which raises the loss least for what it
    saves. Of longer chains, `n_trials` points are tried.
    """

    remeasure: int = 4
    """Steps after which all choices are measured anew; between, only those of the units that changed are."""

    def plan(self, problem: Measurable, objectives: Objectives, seed: int) -> Sequence[Params]:
        problem = untrained(problem, NAME)
        metrics = cost_metrics(objectives, NAME)
        choices = choices_of(problem, NAME)
        harm = Harm(problem, self.harm)
        found: list[Params] = []
        for metric in metrics:
            chain = _Chain(choices, Price(problem, metric), harm, self.remeasure)
            points = [point_of(chosen) for chosen in chain]
            logger.info("%s: %d steps from the largest to the smallest %s", NAME, len(points) - 1, metric)
            found += thinned(points, max(2, self.n_trials // len(metrics)))
        return distinct(found)


class _Chain:
    """Choices for all units, made cheaper step by step."""

    def __init__(self, choices: Mapping[str, Sequence[Choice]], price: Price, harm: Harm, remeasure: int) -> None:
        self._choices, self._price, self._harm, self._remeasure = choices, price, harm, remeasure
        self._now = price.widest(choices)
        self._rise: dict[str, list[tuple[Choice, float]]] = {}
        """The steps that each unit can take, and what each adds to the harm."""

    def __iter__(self) -> Iterator[dict[str, Choice]]:
        yield dict(self._now)
        steps = 0
        while (step := self._best()) is not None:
            self._now[step.unit] = step
            yield dict(self._now)
            steps += 1
            if steps % self._remeasure == 0:
                self._rise.clear()
            else:
                del self._rise[step.unit]

    def _best(self) -> Choice | None:
        before: float | None = None
        for name in self._now:
            if name not in self._rise:
                if before is None:
                    before = self._harm(configs_of(self._now))
                self._rise[name] = [(step, self._after(step) - before) for step in self._steps(name)]
        steps = [each for of_unit in self._rise.values() for each in of_unit]
        return min(steps, key=self._rate)[0] if steps else None

    def _rate(self, step: tuple[Choice, float]) -> tuple[float, float]:
        """Harm for each unit of cost that is saved; of steps that do none, that which saves most."""
        choice, rise = step
        saved = self._price(self._now[choice.unit]) - self._price(choice)
        return max(rise, 0.0) / saved, -saved

    def _after(self, step: Choice) -> float:
        return self._harm(configs_of({**self._now, step.unit: step}))

    def _steps(self, name: str) -> list[Choice]:
        """For each choice that a unit's configuration makes, the dearest change of it which makes it cheaper."""
        now = self._now[name]
        cheaper = [choice for choice in self._choices[name] if self._price(choice) < self._price(now)]
        found = []
        for dimension in now.point:
            others = [choice for choice in cheaper if _differs_in(dimension, now.point, choice.point)]
            if others:
                found.append(max(others, key=self._price))
        return found


def _differs_in(dimension: str, one: Params, other: Params) -> bool:
    """Whether this is the only choice that two points make differently; a format may bring choices of its own."""
    return one[dimension] != other.get(dimension, one[dimension]) and all(
        one[key] == other[key] for key in one.keys() & other.keys() - {dimension}
    )
