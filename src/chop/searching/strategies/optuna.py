"""Strategy `optuna`: the samplers of Optuna."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from chop.registry import closest
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Problem
from chop.searching.space import Dimension, Label, Params, Space
from chop.searching.strategies.base import Strategy, register_strategy
from chop.training.seeds import derived_seed

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS = ("tpe", "random", "nsga2", "nsga3", "qmc", "brute_force")
ALIASES = {"nsgaii": "nsga2", "nsgaiii": "nsga3", "bruteforce": "brute_force"}
MAX_BRUTE_FORCE_TRIALS = 100_000


@register_strategy("optuna")
@dataclass(frozen=True)
class OptunaStrategy(Strategy):
    """Configurations drawn by a sampler of Optuna; samplers that ignore earlier results draw all at the start."""

    supports_training: ClassVar[bool] = True

    sampler: str = "tpe"
    """tpe, random, nsga2, nsga3, qmc or brute_force; NSGAII, NSGAIII and BruteForce are accepted too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in SAMPLERS:
            raise ValueError(f"unknown sampler '{self.sampler}', {closest(self.sampler.lower(), SAMPLERS)}")

    @property
    def kind(self) -> str:
        """The sampler by its name in `SAMPLERS`."""
        name = self.sampler.lower().replace("-", "").replace("_", "").removesuffix("sampler")
        return ALIASES.get(name, name)

    def plan(self, problem: Problem, objectives: Objectives, seed: int) -> Sequence[Params]:
        if self.kind == "brute_force":
            if problem.space.num_configurations > MAX_BRUTE_FORCE_TRIALS:
                raise ValueError(
                    f"brute_force would try all {problem.space.num_configurations} configurations; the limit is "
                    f"{MAX_BRUTE_FORCE_TRIALS}: offer fewer choices, or use another sampler"
                )
            return list(problem.space.all_params())
        if self.kind == "random":
            return list(itertools.islice(random_params(problem.space, seed), self.n_trials))
        return [{}] * self.n_trials

    def make_sampler(self, seed: int, number: int = 0, *, num_workers: int = 1) -> BaseSampler | None:
        from optuna import samplers

        trial_seed = derived_seed(seed, number) % 2**32  # NumPy, which Optuna uses, takes 32 bits
        match self.kind:
            case "tpe":
                return samplers.TPESampler(seed=trial_seed, constant_liar=num_workers > 1)
            case "nsga2":
                return samplers.NSGAIISampler(seed=trial_seed)
            case "nsga3":
                return samplers.NSGAIIISampler(seed=trial_seed)
            case "qmc":
                return samplers.QMCSampler(seed=seed, scramble=True)  # all trials share one sequence
            case _:
                return None


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
