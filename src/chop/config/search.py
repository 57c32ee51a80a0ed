"""Options of `ch search`, and the `[search]` table of a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from chop.config.base import ActionConfig, option

Direction = Literal["maximize", "minimize"]


@dataclass(frozen=True)
class SpaceSetup:
    """`[search.search_space.setup]`."""

    by: Literal["name", "type", "regex_name"] = "name"  # meaning of the keys of `seed`


@dataclass(frozen=True)
class SpaceTable:
    """`[search.search_space]`: the configurations to choose from."""

    name: str = "graph/quantize/mixed_precision_ptq"
    setup: SpaceSetup = field(default_factory=SpaceSetup)
    seed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)  # choices of `learning_rate`, `batch_size`, ...
    model: Mapping[str, Any] = field(default_factory=dict)  # choices of model options
    method: tuple[str, ...] = ()  # choices of methods for low bit widths: "nearest", "gptq", ...


@dataclass(frozen=True)
class MetricTable:
    """`[search.strategy.metrics] accuracy.scale = ...`; the default direction is that of the metric."""

    scale: float = 1.0
    direction: Direction | None = None


@dataclass(frozen=True)
class StrategyTable:
    """`[search.strategy]`: how to search the space, and what to measure."""

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


@dataclass(frozen=True, kw_only=True)
class SearchConfig(ActionConfig):
    """Search for Pareto-optimal number formats for the layers of a model."""

    supported_tasks: ClassVar[tuple[str, ...]] = ("cls", "lm")
    examples: ClassVar[tuple[str, ...]] = (
        "ch search --config configs/examples/jsc_toy_search.toml",
        "ch search --config configs/examples/jsc_toy_search.toml --max-drop 0.5",
    )

    search: SearchTable = option(SearchTable(), kind="toml", help="the [search] table")
    n_trials: int | None = option(
        None, least=1, group="search", help="number of trials, not counting the uniform baselines"
    )
    timeout: float | None = option(
        None, least=0, group="search", help="start no new trials after this many seconds"
    )
    workers: int | None = option(None, least=1, group="search", help="number of worker processes on this machine")
    storage: str | None = option(
        None,
        group="search",
        help="database of the study, for example postgresql://user@host/name; default: a journal file",
    )
    study: str | None = option(
        None, group="search", help="name of the study; machines that use the same name share its trials"
    )
    resume: bool = option(False, group="search", help="resume an interrupted search")
    max_drop: float | None = option(
        None,
        least=0,
        group="search",
        help="choose the cheapest trial that loses at most this many percentage points of accuracy",
    )
    apply: int | None = option(
        None, group="search", help="write the graph of the trial with this number, and do not search"
    )
    finetune: int = option(
        0, least=0, group="search", help="number of epochs to fine-tune the chosen configuration"
    )
    learning_rate: float = option(
        None,
        least=0,
        group="search",
        help="learning rate of --finetune; default: that of the trials' training, or 0.001 if they are not trained",
    )
