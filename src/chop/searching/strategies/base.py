"""The interface of search strategies."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chop.config import Options, option
from chop.config.search import Direction
from chop.registry import Decorator, Registry
from chop.runs import Experiment
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Problem
from chop.searching.space import Params

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from chop.searching.spec import SearchSpec


@dataclass(frozen=True)
class Strategy(Options, ABC):
    """A way to decide which configurations become trials.

    A subclass is a frozen dataclass whose fields are the keys of `[search.strategy.setup]`.
    """

    supports_training: ClassVar[bool] = False
    """Whether it can search problems that train each configuration."""
    trains: ClassVar[bool] = False
    """Whether it trains graphs itself."""

    n_trials: int = option(
        100, least=1, help="number of trials; strategies that compute their trials themselves may need fewer"
    )
    n_jobs: int = option(1, least=1, help="worker processes on this machine; -1: one per core")
    timeout: float | None = None
    """Seconds after which no new trial is started; at most half of them are used to plan the trials."""
    sum_scaled_metrics: bool = False
    direction: Direction = "maximize"
    """Direction of the sum of the scaled metrics."""
    save_every_n_trials: int = option(
        0, least=0, help="number of trials after which the results are written; 0: only at the end"
    )
    halving: bool = False
    """Whether trials are pruned: stopped after some rows or epochs if one that costs no more was clearly better."""

    def __post_init__(self) -> None:
        if self.n_jobs == -1:
            object.__setattr__(self, "n_jobs", os.cpu_count() or 1)
        super().__post_init__()
        if self.timeout is not None and self.timeout <= 0:
            raise ValueError(f"'timeout' must be above 0 seconds, got {self.timeout}")

    @classmethod
    def with_defaults(cls, setup: Mapping[str, Any]) -> dict[str, Any]:
        """Return `[search.strategy.setup]` with defaults that depend on other keys of it."""
        return {**setup}

    def own_problem(self, spec: SearchSpec, experiment: Experiment) -> Problem | None:
        """Return the problem of a strategy that trains graphs itself; None for others."""
        return None

    @abstractmethod
    def plan(self, problem: Problem, objectives: Objectives, seed: int) -> Sequence[Params]:
        """Return the params of each trial; if they are empty, a sampler draws them when the trial starts.

        Uniform baselines need not be among them: every search adds them.
        """

    def make_sampler(self, seed: int, number: int = 0, num_earlier: int = 0) -> BaseSampler | None:
        """Return the sampler that draws the params of trial `number`; None if `plan` leaves none open.

        It is asked again, with `num_earlier` = 1, 2, ..., if the configuration that it drew was already tried.
        """
        return None


STRATEGIES: Registry[type[Strategy]] = Registry("search strategy")


def register_strategy(name: str) -> Decorator:
    """Return a decorator that registers a `Strategy` under its name in TOML files; write it above `@dataclass`."""
    return STRATEGIES.register(name)
