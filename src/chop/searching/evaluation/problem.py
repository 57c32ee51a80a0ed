"""What can be searched: points, and the metrics of each."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from chop.searching.space import Space, Unit
from chop.searching.space.space import Configs

Metrics = dict[str, float]
Judge = Callable[[Metrics, int, float], bool]
"""Whether to go on, from what a configuration costs, the step that is done, and the accuracy then."""


class Measurable(ABC):
    """A space, and a way to measure its points."""

    space: Space

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """How many rows accuracy is measured on."""

    @property
    @abstractmethod
    def rungs(self) -> Mapping[int, int]:
        """The steps at which a measurement may be ended, and how many rows have been measured at each."""

    def units(self, configs: Configs) -> Sequence[Unit]:
        """The units that there are in a configuration: a model of another shape may lack some."""
        return self.space.units

    @abstractmethod
    def measure(self, configs: Configs, judge: Judge | None = None) -> Metrics:
        """All metrics of a configuration; `judge` is asked on the way, and may end it early."""

    @abstractmethod
    def plain(self) -> Metrics:
        """The metrics of the model as it is."""


@contextmanager
def quiet_passes() -> Iterator[None]:
    """Within it, passes do not tell what they do to each layer: there are many trials."""
    log = logging.getLogger("chop.passes")
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)
