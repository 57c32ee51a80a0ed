"""Strategy `sensitivity`: costs are reduced step by step, each time where it adds the least error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chop.config import option
from chop.searching.space import Params
from chop.searching.strategies.base import register_strategy
from chop.searching.strategies.measuring import (
    Assignment,
    Candidate,
    CandidateCosts,
    Candidates,
    ErrorMeasure,
    MeasuringStrategy,
    configuration_of,
)

logger = logging.getLogger(__name__)


@register_strategy("sensitivity")
@dataclass(frozen=True)
class SensitivityStrategy(MeasuringStrategy):
    """A greedy chain of configurations from the most expensive to the cheapest.

    Each step changes one key of one unit to its next cheaper value: the step that adds the least error per cost
    saved. If the chain is longer than `n_trials`, evenly spaced configurations of it become trials.
    """

    name: ClassVar[str] = "sensitivity"
    if_over: ClassVar[str] = " before the lowest cost was reached"

    remeasure: int = option(
        4,
        least=1,
        help="steps after which all candidates are measured again; in between, those of the changed unit",
    )

    def assignments(
        self, candidates: Candidates, costs: CandidateCosts, error: ErrorMeasure, max_trials: int
    ) -> Iterator[Assignment]:
        """Yield the chain, however long it is."""
        num_steps = -1
        try:
            for assignment in _GreedyChain(candidates, costs, error, self.remeasure):
                num_steps += 1
                yield assignment
        finally:
            logger.info("%s: %d steps from the highest to the lowest %s", self.name, num_steps, costs.metric)


class _GreedyChain:
    """Assignments of candidates to all units, each cheaper than the one before."""

    def __init__(
        self,
        candidates: Candidates,
        costs: CandidateCosts,
        error: ErrorMeasure,
        remeasure: int,
    ) -> None:
        self._candidates, self._costs, self._error, self._remeasure = candidates, costs, error, remeasure
        self._current = costs.most_expensive(candidates)
        self._added_errors: dict[str, list[tuple[Candidate, float]]] = {}
        """The next candidates of each unit, and the error that each adds."""

    def __iter__(self) -> Iterator[dict[str, Candidate]]:
        yield dict(self._current)
        num_steps = 0
        while (step := self._best_step()) is not None:
            self._current[step.unit] = step
            yield dict(self._current)
            num_steps += 1
            if num_steps % self._remeasure == 0:
                self._added_errors.clear()
            else:
                del self._added_errors[step.unit]

    def _best_step(self) -> Candidate | None:
        before: float | None = None
        for name in self._current:
            if name not in self._added_errors:
                if before is None:
                    before = self._error(configuration_of(self._current))
                self._added_errors[name] = [
                    (step, self._error(configuration_of({**self._current, name: step})) - before)
                    for step in self._steps(name)
                ]
        steps = [each for of_unit in self._added_errors.values() for each in of_unit]
        return min(steps, key=self._error_per_cost)[0] if steps else None

    def _error_per_cost(self, step: tuple[Candidate, float]) -> tuple[float, float]:
        """Return a sort key: the error added per cost saved; for steps without error, larger savings first."""
        candidate, added_error = step
        saved = self._costs(self._current[candidate.unit]) - self._costs(candidate)
        return max(added_error, 0.0) / saved, -saved

    def _steps(self, name: str) -> list[Candidate]:
        """Return, for each dimension of a unit, the change of it alone that saves the least."""
        current = self._current[name]
        cheaper = [each for each in self._candidates[name] if self._costs(each) < self._costs(current)]
        found = []
        for dimension in current.params:
            changed = [each for each in cheaper if _differs_only_in(dimension, current.params, each.params)]
            if changed:
                found.append(max(changed, key=self._costs))
        return found


def _differs_only_in(dimension: str, one: Params, other: Params) -> bool:
    """Return whether two params differ in this dimension, and in no other that both have.

    A change of the format may add dimensions and remove others.
    """
    return one[dimension] != other.get(dimension, one[dimension]) and all(
        one[key] == other[key] for key in one.keys() & other.keys() - {dimension}
    )
