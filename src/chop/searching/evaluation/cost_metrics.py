"""What a runner is: options, and metrics with the direction in which each is better."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeVar

from chop.config.search import Direction
from chop.ir import NodeMeta
from chop.registry import Registry

Amounts = tuple[float, ...]


class CostRunner(ABC):
    """A cost that adds up over nodes. A subclass is a frozen dataclass whose fields are its options.

    What a node adds depends on its own formats only, so that it is worked out once for each of them.
    """

    metrics: ClassVar[Mapping[str, Direction]]

    @abstractmethod
    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        """What adds up over the nodes of a graph."""

    @abstractmethod
    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        """The metrics from the sums over all nodes, which were annotated with `num_rows` samples."""


COST_RUNNERS: Registry[type[CostRunner]] = Registry("hardware runner")
Runner = TypeVar("Runner", bound=type[CostRunner])


def register_cost_runner(name: str) -> Callable[[Runner], Runner]:
    """Files a runner under the name that `[search.strategy.hw_runner]` uses; stands above `@dataclass`."""

    def decorate(runner: Runner) -> Runner:
        COST_RUNNERS.add(name, runner)
        return runner

    return decorate
