"""Drawing the params of trials with a sampler of Optuna, so that no configuration is tried twice."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseGASampler, BaseSampler, TPESampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from chop.searching.evaluation.objectives import Gains, pareto_front
from chop.searching.space import Dimension, Label, Params, Space
from chop.searching.space.dimension import equality_key

MAX_DRAWS = 2
"""How often a sampler may draw; if each time it repeats a trial, some of the choices are changed at random."""
TRIES_PER_CHANGE = 8
"""Random changes to try with one choice changed, then with two, and so on."""
MAX_TRIALS = 200
"""After so many finished trials, TPE keeps as many: Pareto-optimal ones, up to half of them, and the newest."""
MakeSampler = Callable[[int, int], BaseSampler | None]
"""Makes the sampler of a trial: takes the number of the trial, and how often it was drawn before."""


@cache
def distribution_of(dimension: Dimension) -> BaseDistribution:
    """Return a dimension as Optuna's storages and samplers know it."""
    return CategoricalDistribution(dimension.labels)


class ParamsDrawer:
    """Draws the params of trials; they depend only on the finished trials and on the number of the trial.

    The samplers look at copies of finished trials, in a study in memory.
    """

    def __init__(self, directions: Sequence[StudyDirection], make_sampler: MakeSampler) -> None:
        self._directions, self._make_sampler = directions, make_sampler
        self._start_copying(())

    def draw(
        self, finished: Sequence[FrozenTrial], number: int, space: Space, tried: set[str]
    ) -> tuple[dict[str, Label], dict[str, Any]]:
        """Return params whose keys are not in `tried`, unless all configurations of the space were tried.

        Also return the attributes that a genetic algorithm needs to find with the trial.
        """
        attributes: dict[str, Any] = {}
        for num_earlier in range(MAX_DRAWS):
            sampler = self._sampler_of_trial(number, num_earlier)
            is_limited = isinstance(sampler, TPESampler)  # the more trials, the longer it takes
            self._copy(finished, len(finished) // MAX_TRIALS * MAX_TRIALS if is_limited else 0)
            self._sampler.of_trial = sampler
            trial = self._history.ask()
            space.draw(lambda each: each.value(trial.suggest_categorical(each.name, each.labels)))  # noqa: B023
            drawn: dict[str, Label] = trial.params
            self._history.tell(trial, state=TrialState.FAIL)  # it is copied when it has finished
            if not is_limited:
                attributes = self._history.get_trials(deepcopy=False)[trial.number].system_attrs
            if len(tried) >= space.num_configurations or equality_key(drawn) not in tried:
                return drawn, attributes
        return _change_until_new(drawn, tried, space, random.Random(number)), attributes

    def _sampler_of_trial(self, number: int, num_earlier: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = self._make_sampler(number, num_earlier)
        assert sampler is not None, "the plan leaves params open only if the strategy has a sampler"
        return sampler

    def _copy(self, finished: Sequence[FrozenTrial], num_earlier: int) -> None:
        """Copy the trials that have finished since the last time; of the first `num_earlier` only some."""
        if num_earlier != self._num_earlier:
            self._start_copying(finished[:num_earlier])
        new = [trial for trial in finished if trial.number not in self._copied]
        self._history.add_trials(new)
        self._copied.update(trial.number for trial in new)

    def _start_copying(self, earlier: Sequence[FrozenTrial]) -> None:
        self._sampler = _SamplerPerTrial(self._sampler_of_trial)
        self._history = optuna.create_study(directions=self._directions, sampler=self._sampler)
        self._history.add_trials(self._best_and_newest(earlier))
        self._num_earlier = len(earlier)
        self._copied = {trial.number for trial in earlier}

    def _best_and_newest(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        front = pareto_front((each for each in trials if each.state is TrialState.COMPLETE), self._gains)
        best = sorted(trial.number for trial in front)[-MAX_TRIALS // 2 :]
        others = [trial.number for trial in trials if trial.number not in best]
        kept = {*best, *others[len(best) - MAX_TRIALS :]}
        return [trial for trial in trials if trial.number in kept]

    def _gains(self, trial: FrozenTrial) -> Gains:
        signs = [1 if each is StudyDirection.MAXIMIZE else -1 for each in self._directions]
        return tuple(sign * value for sign, value in zip(signs, trial.values, strict=True))


class _SamplerPerTrial(BaseSampler):
    """Draws each trial with a sampler of its own; they share the list of dimensions that all trials have."""

    of_trial: BaseSampler

    def __init__(self, make_sampler: Callable[[int, int], BaseSampler]) -> None:
        self._make_sampler = make_sampler
        self._space = IntersectionSearchSpace()
        self._generation = 0

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Select the parents of each generation once, so that they do not depend on when a search was stopped."""
        self.of_trial.before_trial(study, trial)
        if isinstance(self.of_trial, BaseGASampler):
            while self._generation < self.of_trial.get_trial_generation(study, trial):
                self._generation += 1
                sampler = self._make_sampler(self._generation, 0)
                assert isinstance(sampler, BaseGASampler), "all trials have samplers of one kind"
                sampler.get_parent_population(study, self._generation)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {name: each for name, each in self._space.calculate(study).items() if not each.single()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self.of_trial.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.of_trial.sample_independent(study, trial, param_name, param_distribution)


def _change_until_new(params: Params, tried: set[str], space: Space, generator: random.Random) -> dict[str, Label]:
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
