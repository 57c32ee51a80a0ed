"""The base of strategies that measure the error of single candidates."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from chop.display.progress import ProgressBar
from chop.searching.evaluation.problem import UnitwiseProblem
from chop.searching.space import Configuration
from chop.searching.strategies.base import Strategy

ErrorKind = Literal["loss", "output"]
PLANNING_SHARE = 0.5
"""The share of `timeout` that planning may take; the rest is for the trials."""


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
    remeasure: int = 1
    """Steps after which all candidates are measured again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.remeasure < 1:
            raise ValueError(f"'remeasure' must be at least 1, got {self.remeasure}")


class ErrorMeasure:
    """The error of a configuration: its loss, or how far its output is from that of the original model.

    The second is the energy of the difference divided by the energy of the original output.
    """

    def __init__(
        self, problem: UnitwiseProblem, kind: ErrorKind, clock: PlanningClock, num_rows: int | None = None
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
            error = self._relative_difference(self._evaluator.outputs(replacements))
        return error if math.isfinite(error) else math.inf

    def _relative_difference(self, outputs: Iterable[torch.Tensor]) -> float:
        pairs = zip(outputs, self._original, strict=True)
        noise = sum((output.double() - original.double()).square().sum().item() for output, original in pairs)
        return noise / self._energy if self._energy else noise
