"""Pruning: stopping trials early that cannot become Pareto-optimal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chop.searching.evaluation.objectives import Objectives, is_cost


@dataclass(frozen=True)
class CompletedTrial:
    """A trial that ran to its end: its costs, and its accuracy at each rung."""

    costs: Mapping[str, float]
    accuracies: Mapping[int, float]


class TrialPruner:
    """A rule that prunes a trial if a completed one was clearly better at the same rung and costs no more.

    "Clearly better" is an accuracy that is higher by two standard errors.
    """

    def __init__(
        self, completed: Sequence[CompletedTrial], objectives: Objectives, rungs: Mapping[int, int]
    ) -> None:
        """Decide at `rungs`: steps, each with the number of rows that accuracy is measured on."""
        self._completed, self._rungs = completed, rungs
        self._costs = [each for each in objectives.items if is_cost(each.name)]
        self.accuracies: dict[int, float] = {}
        """The accuracy of the trial at each rung it has reached."""
        self.is_pruned = False

    def __call__(self, costs: Mapping[str, float], step: int, accuracy: float) -> bool:
        """Return whether the trial should continue."""
        if step not in self._rungs:
            return True
        self.accuracies[step] = accuracy
        # An accuracy on n rows has a variance of at most 1/(4n), the difference of two of them 1/(2n).
        margin = 2 * math.sqrt(0.5 / self._rungs[step])
        self.is_pruned = any(
            other.accuracies.get(step, 0.0) > accuracy + margin
            and all(each.gain(other.costs) >= each.gain(costs) for each in self._costs)
            for other in self._completed
        )
        return not self.is_pruned
