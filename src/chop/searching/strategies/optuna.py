"""The samplers of Optuna."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chop.registry import closest
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.space import Dimension, Params, Space
from chop.searching.space.dimension import Label
from chop.searching.strategies.base import Strategy, register_strategy

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS = ("tpe", "random", "nsga2", "nsga3", "qmc", "brute_force")
ALIASES = {"nsgaii": "nsga2", "nsgaiii": "nsga3", "bruteforce": "brute_force"}
MANY = 100_000
"""More points than anyone waits for."""


@register_strategy("optuna")
@dataclass(frozen=True)
class OptunaStrategy(Strategy):
    """Points drawn by one of Optuna's samplers; those that need not look at earlier results are drawn at once."""

    sampler: str = "tpe"
    """One of tpe, random, nsga2, nsga3, qmc and brute_force; NSGAII, NSGAIII and BruteForce mean the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in SAMPLERS:
            raise ValueError(f"unknown sampler '{self.sampler}', {closest(self.sampler.lower(), SAMPLERS)}")

    @property
    def kind(self) -> str:
        plain = self.sampler.lower().replace("-", "").replace("_", "").removesuffix("sampler")
        return ALIASES.get(plain, plain)

    def plan(self, problem: Measurable, objectives: Objectives, seed: int) -> Sequence[Params]:
        if self.kind == "brute_force":
            if problem.space.num_points > MANY:
                raise ValueError(
                    f"brute_force would try all {problem.space.num_points} points of the space; at most {MANY} are "
                    "sensible: offer fewer choices, or take another sampler"
                )
            return list(problem.space.points())
        if self.kind == "random":
            return list(itertools.islice(random_points(problem.space, seed), self.n_trials))
        return [{}] * self.n_trials

    def make_sampler(self, seed: int, number: int = 0, *, num_workers: int = 1) -> BaseSampler | None:
        from optuna import samplers

        own = (seed * 1_000_003 + number) % 2**32  # a sequence that is nobody else's
        match self.kind:
            case "tpe":
                return samplers.TPESampler(seed=own, constant_liar=num_workers > 1)
            case "nsga2":
                return samplers.NSGAIISampler(seed=own)
            case "nsga3":
                return samplers.NSGAIIISampler(seed=own)
            case "qmc":
                return samplers.QMCSampler(seed=seed, scramble=True)  # one sequence for all; the study counts
            case _:
                return None


def random_points(space: Space, seed: int) -> Iterator[dict[str, Label]]:
    """Points drawn at random, each once, until there are no new ones."""
    draw = random.Random(seed)
    seen: set[object] = set()
    while len(seen) < space.num_points:
        point: dict[str, Label] = {}

        def take(dimension: Dimension, point: dict[str, Label] = point) -> object:
            place = draw.randrange(len(dimension.choices))
            point[dimension.name] = dimension.labels[place]
            return dimension.choices[place]

        space.draw(take)
        key = tuple(point.items())
        if key not in seen:
            seen.add(key)
            yield point
