"""What the `[search]` table of a TOML file holds; light, because the command line reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Direction = Literal["maximize", "minimize"]


@dataclass(frozen=True)
class SpaceSetup:
    by: Literal["name", "type", "regex_name"] = "name"  # what the keys of `seed` are


@dataclass(frozen=True)
class SpaceTable:
    """`[search.search_space]`: which configurations there are."""

    name: str = "graph/quantize/mixed_precision_ptq"
    setup: SpaceSetup = field(default_factory=SpaceSetup)
    seed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)  # choices of `learning_rate`, `batch_size`, ...
    model: Mapping[str, Any] = field(default_factory=dict)  # choices of what the model's builder takes


@dataclass(frozen=True)
class MetricTable:
    """`[search.strategy.metrics] accuracy.scale = ...`; without a direction, the metric's own."""

    scale: float = 1.0
    direction: Direction | None = None


@dataclass(frozen=True)
class StrategyTable:
    """`[search.strategy]`: how the space is searched, and what is measured."""

    name: str = "optuna"
    eval_mode: bool = True
    sw_runner: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hw_runner: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    setup: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, MetricTable] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchTable:
    """The `[search]` table of a TOML file."""

    search_space: SpaceTable = field(default_factory=SpaceTable)
    strategy: StrategyTable = field(default_factory=StrategyTable)
