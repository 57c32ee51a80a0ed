"""What is to be made large or small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chop.config.search import Direction, MetricTable
from chop.registry import closest
from chop.searching.evaluation import COST_RUNNERS, BasicEvaluation

QUALITY = ("accuracy", "loss")
"""Metrics that are no costs."""
DEFAULT: Mapping[str, MetricTable] = {"accuracy": MetricTable(), "bitops": MetricTable()}


def known_metrics() -> dict[str, Direction]:
    """All metrics, with the direction in which each is better."""
    found: dict[str, Direction] = dict(BasicEvaluation.metrics)
    for runner in COST_RUNNERS.values():
        found |= runner.metrics
    return found


@dataclass(frozen=True)
class Objective:
    """A metric, its weight, and the direction in which it is better."""

    name: str
    direction: Direction
    scale: float = 1.0

    def gain(self, metrics: Mapping[str, float]) -> float:
        """The metric, turned so that more is better; a negative scale turns it once more."""
        is_better = (self.direction == "maximize") == (self.scale >= 0)
        return metrics[self.name] if is_better else -metrics[self.name]


@dataclass(frozen=True)
class Objectives:
    """All of them; several values for a study, or one: the sum."""

    each: tuple[Objective, ...]
    sum_direction: Direction | None = None

    @classmethod
    def read(
        cls, tables: Mapping[str, MetricTable], *, sum_scaled: bool = False, direction: Direction = "maximize"
    ) -> Objectives:
        """From `[search.strategy.metrics]`; unknown ones are named."""
        known = known_metrics()
        found = []
        for name, table in (tables or DEFAULT).items():
            if name not in known:
                raise ValueError(f"search.strategy.metrics: unknown metric '{name}', {closest(name, known)}")
            if table.scale <= 0 and not sum_scaled:
                raise ValueError(f"search.strategy.metrics.{name}: 'scale' must be above 0, got {table.scale}")
            found.append(Objective(name, table.direction or _own(name, table, direction), table.scale))
        return cls(tuple(found), direction if sum_scaled else None)

    @property
    def directions(self) -> list[Direction]:
        return [each.direction for each in self.each] if self.sum_direction is None else [self.sum_direction]

    def values(self, metrics: Mapping[str, float]) -> list[float]:
        """What a study is told of a trial."""
        if self.sum_direction is None:
            return [each.scale * metrics[each.name] for each in self.each]
        return [
            sum(
                each.scale * metrics[each.name] * (1 if each.direction == self.sum_direction else -1)
                for each in self.each
            )
        ]

    def front(self, metrics: Sequence[Mapping[str, float]]) -> list[int]:
        """The places of those that none dominates; of equal ones, the first."""
        order = sorted(range(len(metrics)), key=lambda place: [-each.gain(metrics[place]) for each in self.each])
        kept: list[int] = []
        for place in order:  # who dominates or equals one comes before it
            others = (metrics[other] for other in kept)
            if not any(self.covers(other, metrics[place]) for other in others):
                kept.append(place)
        return kept

    def covers(self, one: Mapping[str, float], other: Mapping[str, float]) -> bool:
        """Whether `one` is nowhere worse than `other`."""
        return all(each.gain(one) >= each.gain(other) for each in self.each)


def _own(name: str, table: MetricTable, direction: Direction) -> Direction:
    """The metric's own direction; a negative scale already turns it, as users of sums write it."""
    return direction if table.scale < 0 else known_metrics()[name]
