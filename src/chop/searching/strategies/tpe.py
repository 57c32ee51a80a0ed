"""The TPE sampler of Optuna, without repeated work from one draw to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator
from optuna.trial import FrozenTrial


@dataclass
class TPEMemory:
    """What samplers of a study share: the params of finished trials as numbers, and the last estimators."""

    dimensions: tuple[str, ...] = ()
    """Their names; the choices of a dimension never change in a study."""
    rows: dict[int, tuple[float, ...] | None] = field(default_factory=dict)
    """By trial: its params in the order of `dimensions`; None if it lacks one of them."""
    estimators: dict[bool, tuple[list[FrozenTrial], _ParzenEstimator]] = field(default_factory=dict)
    """The estimator of the best trials and that of the others, with the trials they were made from."""


class SharedTPESampler(TPESampler):
    """A TPE sampler that draws what Optuna's draws; samplers can share their memory."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.memory = TPEMemory()

    def _build_parzen_estimator(
        self,
        study: Study,
        search_space: dict[str, BaseDistribution],
        trials: list[FrozenTrial],
        handle_below: bool,
    ) -> _ParzenEstimator:
        if self.memory.dimensions != tuple(search_space):
            self.memory.dimensions, self.memory.rows, self.memory.estimators = tuple(search_space), {}, {}
        known, estimator = self.memory.estimators.get(handle_below, (None, None))
        if estimator is None or known != trials:
            estimator = super()._build_parzen_estimator(study, search_space, trials, handle_below)
            self.memory.estimators[handle_below] = (trials, estimator)
        return estimator

    def _get_internal_repr(
        self, trials: list[FrozenTrial], search_space: dict[str, BaseDistribution], study: Study
    ) -> dict[str, NDArray[np.generic]]:
        found = [self._row(trial, search_space, study) for trial in trials]
        rows = [row for row in found if row is not None]
        columns = zip(*rows, strict=True) if rows else [()] * len(search_space)
        return {name: np.asarray(column) for name, column in zip(search_space, columns, strict=True)}

    def _row(
        self, trial: FrozenTrial, search_space: dict[str, BaseDistribution], study: Study
    ) -> tuple[float, ...] | None:
        if trial.number in self.memory.rows:
            return self.memory.rows[trial.number]
        params, row = self._get_params(trial, study), None
        if search_space.keys() <= params.keys():
            row = tuple(each.to_internal_repr(params[name]) for name, each in search_space.items())
        if trial.state.is_finished():
            self.memory.rows[trial.number] = row
        return row
