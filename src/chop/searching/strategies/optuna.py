"""Strategy `optuna`: the samplers of Optuna."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from chop.registry import closest
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Problem
from chop.searching.space import Dimension, Label, Params, Space
from chop.searching.space.dimension import equality_key
from chop.searching.strategies.base import Strategy, register_strategy
from chop.training.seeds import derived_seed

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS = ("tpe", "random", "nsga2", "nsga3", "qmc", "brute_force")
ALIASES = {"nsgaii": "nsga2", "nsgaiii": "nsga3", "bruteforce": "brute_force"}
MAX_BRUTE_FORCE_TRIALS = 100_000
MAX_REPEATED = 100
"""Configurations that a quasi-random sequence may repeat one after the other."""


@register_strategy("optuna")
@dataclass(frozen=True)
class OptunaStrategy(Strategy):
    """Configurations drawn by a sampler of Optuna; samplers that ignore earlier results draw all at the start."""

    supports_training: ClassVar[bool] = True

    sampler: str = "tpe"
    """tpe, random, nsga2, nsga3, qmc or brute_force; NSGAII, NSGAIII and BruteForce are accepted too."""

    @classmethod
    def with_defaults(cls, setup: Mapping[str, Any]) -> dict[str, Any]:
        """Let `brute_force` try all configurations if `n_trials` is not given."""
        name = str(setup.get("sampler", ""))
        return {"n_trials": MAX_BRUTE_FORCE_TRIALS, **setup} if _kind(name) == "brute_force" else {**setup}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in SAMPLERS:
            raise ValueError(f"unknown sampler '{self.sampler}'; {closest(self.sampler.lower(), SAMPLERS)}")

    @property
    def kind(self) -> str:
        """The sampler by its name in `SAMPLERS`."""
        return _kind(self.sampler)

    def plan(self, problem: Problem, objectives: Objectives, seed: int) -> Sequence[Params]:
        match self.kind:
            case "brute_force":
                return self._evenly_spaced(problem.space)
            case "random":
                return list(itertools.islice(random_params(problem.space, seed), self.n_trials))
            case "qmc":
                return list(itertools.islice(quasi_random_params(problem.space, seed), self.n_trials))
            case _:
                return [{}] * self.n_trials

    def _evenly_spaced(self, space: Space) -> list[Params]:
        """Return all params of a space, or `n_trials` of them."""
        if space.num_configurations > MAX_BRUTE_FORCE_TRIALS:
            raise ValueError(
                f"brute_force would list all {space.num_configurations} configurations; the limit is "
                f"{MAX_BRUTE_FORCE_TRIALS}: offer fewer choices, or use another sampler"
            )
        found = list(space.all_params())
        count = min(self.n_trials, len(found))
        return [found[index * len(found) // count] for index in range(count)]

    def make_sampler(self, seed: int, number: int = 0, num_earlier: int = 0) -> BaseSampler | None:
        from optuna import samplers

        numbers = (number, num_earlier) if num_earlier else (number,)
        trial_seed = derived_seed(seed, *numbers) % 2**32  # NumPy, which Optuna uses, takes 32 bits
        match self.kind:
            case "tpe":
                # Drawing all choices together takes a fifth of the time, and finds better fronts.
                return samplers.TPESampler(seed=trial_seed, multivariate=True)
            case "nsga2":
                return samplers.NSGAIISampler(seed=trial_seed)
            case "nsga3":
                return samplers.NSGAIIISampler(seed=trial_seed)
            case _:
                return None


def _kind(sampler: str) -> str:
    name = sampler.lower().replace("-", "").replace("_", "").removesuffix("sampler")
    return ALIASES.get(name, name)


def quasi_random_params(space: Space, seed: int) -> Iterator[Params]:
    """Yield the params of a scrambled Sobol sequence, without repetition, until the space is exhausted.

    The last ones are drawn at random: a sequence over a small space repeats itself for long.
    """
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    seen: set[str] = set()
    num_repeated = 0
    while num_repeated < MAX_REPEATED:
        trial = study.ask()
        space.draw(lambda each, trial=trial: each.value(trial.suggest_categorical(each.name, each.labels)))  # type: ignore[misc]
        study.tell(trial, 0.0)
        num_repeated = num_repeated + 1 if equality_key(trial.params) in seen else 0
        if not num_repeated:
            seen.add(equality_key(trial.params))
            yield trial.params
    yield from (params for params in random_params(space, seed) if equality_key(params) not in seen)


def random_params(space: Space, seed: int) -> Iterator[dict[str, Label]]:
    """Yield params drawn at random without repetition, until the space is exhausted."""
    generator = random.Random(seed)
    seen: set[object] = set()
    while len(seen) < space.num_configurations:
        params: dict[str, Label] = {}

        def take(dimension: Dimension, params: dict[str, Label] = params) -> object:
            index = generator.randrange(len(dimension.choices))
            params[dimension.name] = dimension.labels[index]
            return dimension.choices[index]

        space.draw(take)
        key = tuple(params.items())
        if key not in seen:
            seen.add(key)
            yield params
