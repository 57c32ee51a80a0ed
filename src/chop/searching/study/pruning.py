"""Giving up trials that cannot win any more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chop.searching.evaluation.objectives import QUALITY, Objectives


@dataclass(frozen=True)
class Rival:
    """A trial that ran to the end, and its accuracy at each step on the way."""

    costs: Mapping[str, float]
    accuracies: Mapping[int, float]


class TrialJudge:
    """Gives a trial up if one that costs no more was better by two standard errors at the same step."""

    def __init__(self, rivals: Sequence[Rival], objectives: Objectives, rungs: Mapping[int, int]) -> None:
        """`rungs` are the steps at which it decides, with the number of rows that accuracy is measured on there."""
        self._rivals, self._rungs = rivals, rungs
        self._costs = [each for each in objectives.each if each.name not in QUALITY]
        self.accuracies: dict[int, float] = {}
        self.gave_up = False

    def __call__(self, costs: Mapping[str, float], step: int, accuracy: float) -> bool:
        """Whether to go on."""
        if step not in self._rungs:
            return True
        self.accuracies[step] = accuracy
        margin = 2 * math.sqrt(0.5 / self._rungs[step])  # of a difference of two shares, at most
        self.gave_up = any(
            rival.accuracies.get(step, 0.0) > accuracy + margin
            and all(each.gain(rival.costs) >= each.gain(costs) for each in self._costs)
            for rival in self._rivals
        )
        return not self.gave_up
