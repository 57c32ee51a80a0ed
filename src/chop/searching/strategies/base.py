"""What a strategy is: which points are tried, or what draws them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from chop.config.search import Direction
from chop.registry import Registry
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.space import Params

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


@dataclass(frozen=True)
class Strategy(ABC):
    """A subclass is a frozen dataclass; its fields are the keys of `[search.strategy.setup]`."""

    n_trials: int = 100
    """Points to try; strategies that work their points out by themselves may need fewer."""
    n_jobs: int = 1
    """Processes on this machine; -1: one for each core."""
    timeout: float | None = None
    """Seconds after which no new point is begun."""
    sum_scaled_metrics: bool = False
    direction: Direction = "maximize"
    """Of the sum of scaled metrics."""
    save_every_n_trials: int = 0
    """Write the results so often; 0: at the end only."""
    halving: bool = False
    """Give up a point after some of the rows or epochs, if one that costs no more did clearly better there."""

    def __post_init__(self) -> None:
        if self.n_jobs == -1:
            object.__setattr__(self, "n_jobs", os.cpu_count() or 1)
        for name, least in (("n_trials", 1), ("n_jobs", 1), ("save_every_n_trials", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"'{name}' must be at least {least}, got {getattr(self, name)}")
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError(f"'timeout' must be above 0 seconds, got {self.timeout}")

    @abstractmethod
    def plan(self, problem: Measurable, objectives: Objectives, seed: int) -> Sequence[Params]:
        """The points to try, beside the uniform ones, which always are; an empty one is left to the sampler."""

    def make_sampler(self, seed: int, number: int = 0, *, num_workers: int = 1) -> BaseSampler | None:
        """What draws the point of trial `number`, if the plan leaves it open; None if it leaves none open."""
        return None


STRATEGIES: Registry[type[Strategy]] = Registry("search strategy")
S = TypeVar("S", bound=type[Strategy])


def register_strategy(name: str) -> Callable[[S], S]:
    """Files a strategy under the name that `[search.strategy]` uses; stands above `@dataclass`."""

    def decorate(strategy: S) -> S:
        STRATEGIES.add(name, strategy)
        return strategy

    return decorate
