"""Objectives: the metrics that a search optimises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from chop.config.search import Direction, MetricTable
from chop.display.figures import KEY_FIGURES, KeyFigure
from chop.registry import closest
from chop.searching.evaluation.cost_runners import COST_RUNNERS
from chop.searching.evaluation.software_runners import BasicEvaluation
from chop.tasks.language_modelling import perplexity

T = TypeVar("T")
Gains = tuple[float, ...]
"""Numbers to compare, such as the metrics of a trial, with signs such that larger is better."""
DEFAULT_METRICS: Mapping[str, MetricTable] = {"accuracy": MetricTable(), "bitops": MetricTable()}
DEFAULT_COST = "bitops"
"""The cost that is shown if no cost is among the objectives."""


def known_metrics() -> dict[str, KeyFigure]:
    """Return all metrics that a search can optimise, by name."""
    costs = (figure for runner in COST_RUNNERS.values() for figure in runner.metrics)
    return {figure.name: figure for figure in (*BasicEvaluation.metrics, *costs)}


def quality_figure(task: str) -> KeyFigure:
    """Return the figure that tables show for the quality of a trial of a task."""
    return KEY_FIGURES["perplexity"] if task == "lm" else KEY_FIGURES["accuracy"]


def measured(figure: KeyFigure, metrics: Mapping[str, float]) -> float | None:
    """Return a figure of a trial, or None if it was not measured; the perplexity follows from the loss."""
    if figure.name == "perplexity" and "loss" in metrics:
        return perplexity(metrics["loss"])
    return metrics.get(figure.name)


def is_cost(name: str) -> bool:
    """Return whether a metric is computed from the graph, and not by running the model."""
    return all(name != figure.name for figure in BasicEvaluation.metrics)


def better_direction(name: str) -> Direction:
    """Return the direction in which a metric is better."""
    better = known_metrics()[name].better
    assert better is not None, f"metric '{name}' does not declare which direction is better"
    return "maximize" if better == "higher" else "minimize"


@dataclass(frozen=True)
class Objective:
    """A metric, its weight, and the direction in which it is better."""

    name: str
    direction: Direction
    scale: float = MetricTable.scale

    @property
    def prefers_lower(self) -> bool:
        """Whether lower values of the metric are better; a negative scale inverts the direction."""
        return (self.direction == "minimize") == (self.scale >= 0)

    def gain(self, metrics: Mapping[str, float]) -> float:
        """Return the metric with a sign such that larger is better."""
        if self.name not in metrics:
            raise ValueError(f"a stored trial has no metric '{self.name}': the study is corrupt")
        return -metrics[self.name] if self.prefers_lower else metrics[self.name]


@dataclass(frozen=True)
class Objectives:
    """All objectives of a search: one study value each, or one value that is their scaled sum."""

    items: tuple[Objective, ...]
    sum_direction: Direction | None = None
    """The direction of the sum; None if the objectives are not summed."""

    @classmethod
    def read(
        cls, tables: Mapping[str, MetricTable], *, sum_scaled: bool = False, direction: Direction = "maximize"
    ) -> Objectives:
        """Read `[search.strategy.metrics]`; if it is empty, use `DEFAULT_METRICS`."""
        known = known_metrics()
        found = []
        for name, table in (tables or DEFAULT_METRICS).items():
            if name not in known:
                raise ValueError(f"search.strategy.metrics: unknown metric '{name}'; {closest(name, known)}")
            if table.scale <= 0 and not sum_scaled:
                raise ValueError(f"search.strategy.metrics.{name}: 'scale' must be above 0, got {table.scale}")
            # In a sum, a negative scale already says that the metric is subtracted.
            default = direction if table.scale < 0 else better_direction(name)
            found.append(Objective(name, table.direction or default, table.scale))
        return cls(tuple(found), direction if sum_scaled else None)

    @property
    def directions(self) -> list[Direction]:
        """The directions of the study's values."""
        return [each.direction for each in self.items] if self.sum_direction is None else [self.sum_direction]

    def values(self, metrics: Mapping[str, float]) -> list[float]:
        """Return the values of a trial that are given to the study."""
        if self.sum_direction is None:
            return [each.scale * metrics[each.name] for each in self.items]
        return [
            sum(
                each.scale * metrics[each.name] * (1 if each.direction == self.sum_direction else -1)
                for each in self.items
            )
        ]

    def gains(self, metrics: Mapping[str, float]) -> Gains:
        """Return the metrics to optimise, with signs such that larger is better."""
        return tuple(each.gain(metrics) for each in self.items)


def weakly_dominates(one: Gains, other: Gains) -> bool:
    """Return whether `one` is at least as good as `other` in every number."""
    return all(a >= b for a, b in zip(one, other, strict=True))


def pareto_front(items: Iterable[T], gains: Callable[[T], Gains]) -> list[T]:
    """Return the Pareto-optimal items, sorted by their first gain, the largest first; of equal items, the first."""
    pairs = sorted(((gains(item), item) for item in items), key=lambda pair: pair[0], reverse=True)
    front: list[tuple[Gains, T]] = []
    for candidate, item in pairs:  # an item that dominates or equals another comes before it
        if not any(weakly_dominates(other, candidate) for other, _ in reversed(front)):
            front.append((candidate, item))
    return [item for _, item in front]
