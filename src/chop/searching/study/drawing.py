"""Drawing the params of trials with a sampler of Optuna, so that no configuration is tried twice."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Container
from functools import cache
from itertools import count
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from chop.searching.space import Dimension, Label, Params, Space
from chop.searching.space.dimension import equality_key
from chop.searching.strategies.tpe import SharedTPESampler, TPEMemory
from chop.searching.study.history import LimitedHistory

MAX_DRAWS = 2
"""How often a sampler may draw; if each time it repeats a trial, some of the choices are changed at random."""
TRIES_PER_CHANGE = 8
"""Random changes to try with one choice changed, then with two, and so on."""
DRAWN = "drawn"
"""The system attribute of a trial that holds all its params as JSON, stored before they are stored one by one."""
MakeSampler = Callable[[int, int], BaseSampler | None]
"""Makes the sampler of a trial: takes the number of the trial, and how often it was drawn before."""


@cache
def distribution_of(dimension: Dimension) -> BaseDistribution:
    """Return a dimension as Optuna's storages and samplers know it."""
    return CategoricalDistribution(dimension.labels)


class ParamsDrawer:
    """Draws the params of trials; they depend only on the finished trials and on the number of the trial."""

    def __init__(self, study: optuna.Study, make_sampler: MakeSampler) -> None:
        self._study, self._make_sampler = study, make_sampler
        self._history = LimitedHistory(study)
        self._search_space: Any = None
        self._tpe_memory = TPEMemory()

    def draw(self, trial: FrozenTrial, space: Space, tried: Container[str], num_tried: int) -> dict[str, Label]:
        """Return params whose keys are not in `tried`, unless all configurations of the space were tried."""
        for number in range(MAX_DRAWS):
            drawn = self._ask_sampler(trial, space, number)
            if num_tried >= space.num_configurations or equality_key(drawn) not in tried:
                return drawn
        return _change_until_new(drawn, tried, space, random.Random(trial.number))

    def _ask_sampler(self, trial: FrozenTrial, space: Space, num_earlier: int) -> dict[str, Label]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = self._make_sampler(trial.number, num_earlier)
        assert sampler is not None, "the plan leaves params open only if the strategy has a sampler"
        self._share_memory(sampler)
        study = self._trials_for(sampler)
        sampler.before_trial(study, trial)
        space_of_all = sampler.infer_relative_search_space(study, trial)
        params = sampler.sample_relative(study, trial, space_of_all)
        drawn: dict[str, Label] = {}

        def suggest(dimension: Dimension) -> Any:
            name = dimension.name
            if name not in params:
                params[name] = sampler.sample_independent(study, trial, name, distribution_of(dimension))
            drawn[name] = params[name]
            return dimension.value(params[name])

        space.draw(suggest)
        return drawn

    def _trials_for(self, sampler: BaseSampler) -> optuna.Study:
        """Return the study with the trials that a sampler looks at; genetic algorithms need all of them."""
        if isinstance(sampler, SharedTPESampler):
            self._history.refresh()
            return self._history
        self._study._thread_local.cached_all_trials = None  # of an earlier draw
        return self._study

    def _share_memory(self, sampler: BaseSampler) -> None:
        """Let the samplers of all trials share what each new one would collect from all trials again.

        This is the list of dimensions that earlier trials have in common and, for TPE, their params as numbers.
        """
        if isinstance(sampler, SharedTPESampler):
            sampler.memory = self._tpe_memory
        if hasattr(sampler, "_search_space"):
            self._search_space = self._search_space or sampler._search_space
            sampler._search_space = self._search_space


def _change_until_new(
    params: Params, tried: Container[str], space: Space, generator: random.Random
) -> dict[str, Label]:
    """Return params that were not tried and differ from `params` in few choices."""
    for number in count():
        drawn: dict[str, Label] = {}
        changed = set(generator.sample(sorted(params), min(1 + number // TRIES_PER_CHANGE, len(params))))

        def choose(dimension: Dimension, drawn: dict[str, Label] = drawn, changed: set[str] = changed) -> Any:
            name = dimension.name
            keeps = name in params and name not in changed
            drawn[name] = params[name] if keeps else generator.choice(dimension.labels)
            return dimension.value(drawn[name])

        space.draw(choose)
        if equality_key(drawn) not in tried:
            return drawn
    raise AssertionError("some configuration was not tried")
