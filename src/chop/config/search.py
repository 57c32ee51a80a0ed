"""Options of `ch search`, and the `[search]` table of a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from chop.config.base import TRAINING_ONLY, ActionConfig, FormatsConfig, Options, option

Direction = Literal["maximize", "minimize"]
Granularity = Literal["channel", "element"]
By = Literal["type", "name", "regex_name"]
"""Whether nodes are chosen by op, by name, or by regular expressions for names."""
USED_BY_APPLY = (
    *("apply", "config", "debug", "finetune", "learning_rate", "log_level", "name", "no_warnings", "plugins"),
    *("project_dir", "study", "trust", "trust_remote_code", "model", "dataset", "task"),
)
"""Options that `ch search --apply` does not take from the search whose trial it applies."""


@dataclass(frozen=True, kw_only=True)
class WidthTrainingOptions(Options):
    """How strategy `learned` trains weights together with their widths."""

    granularity: Granularity = option(
        "element", help="what has a width: a channel (of weights; of the inputs of convolutions) or an element"
    )
    steps: int = option(2000, least=1, help="number of steps")
    batch_size: int = option(512, least=1, help="training rows per step")
    width_learning_rate: float = option(
        0.02, aliases=("learning_rate",), help="roughly the largest change of a width per step, in bits"
    )
    weight_learning_rate: float = option(2e-3, help="learning rate of the weights")
    beta_from: float = option(1e-3, help="first weight of the cost against the loss, relative to the first cost")
    beta_to: float = option(100.0, help="last weight of the cost; raise it if the front ends too early")
    decay_to: float = option(
        1.0, help="share of the learning rates that is left at the last step; they fall along half a cosine"
    )
    finetune_steps: int = option(
        400, least=0, help="steps that train the weights of each trial further, with its widths"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width_learning_rate", "weight_learning_rate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"'{name}' must be above 0, got {getattr(self, name)}")
        if not 0 < self.decay_to <= 1:
            raise ValueError(f"'decay_to' must be above 0 and at most 1, got {self.decay_to}")
        if not 0 < self.beta_from <= self.beta_to:
            raise ValueError(
                f"'beta_from' must be above 0 and at most 'beta_to', got {self.beta_from} and {self.beta_to}"
            )


@dataclass(frozen=True)
class SpaceSetup:
    """`[search.search_space.setup]`."""

    by: By = "name"  # meaning of the keys of `seed`


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
class SearchConfig(FormatsConfig):
    """Search for Pareto-optimal number formats for the layers of a model."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch search --config configs/examples/jsc_toy_search.toml",
        "ch search --config configs/examples/jsc_toy_search.toml --max-drop 0.5",
    )
    needs: ClassVar[Mapping[str, str]] = {
        **ActionConfig.needs,
        **dict.fromkeys((*TRAINING_ONLY, "trainer_precision", "learning_rate"), "finetune"),
    }

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

    def without_effect(self) -> dict[str, str]:
        """Return the options that change nothing; a trial is applied with those of its search."""
        if self.apply is None:
            return super().without_effect()
        unused = [each.name for each in fields(self) if each.name not in USED_BY_APPLY]
        return dict.fromkeys(unused, "with 'apply', which uses the options of the search")
