"""Options of `ch train`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from chop.config.base import ActionConfig, Options, option
from chop.registry import Registry

OPTIMIZERS: Registry[tuple[str, Mapping[str, Any]]] = Registry(
    "optimizer", {"adam": ("Adam", {}), "sgd": ("SGD", {"momentum": 0.9}), "adamw": ("AdamW", {})}
)
"""For each name the class in `torch.optim`, and its arguments besides the learning rate and the weight decay."""

SCHEDULES: Registry[Callable[[float], float]] = Registry(
    "learning rate schedule",
    {
        "none": lambda done: 1.0,
        "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
        "linear": lambda done: 1 - done,
        "step": lambda done: 0.1 ** ((done >= 0.5) + (done >= 0.75)),
    },
)
"""For each name the factor of the learning rate after a share of all steps, for example 0.5 halfway with `linear`.

A schedule depends on nothing but the step, so that a resumed training needs no state of it.
"""

_NEEDED = {
    "distill": ("teacher", "distill_temperature", "distill_weight"),
    "prune_sparsity": ("prune_epochs", "prune_scope", "prune_granularity"),
}
"""Options that have no effect without another one."""

training_option = partial(option, group="training", same_on_resume=True)
low_bits_option = partial(option, group="low bits", same_on_resume=True)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """Options of every training: that of `ch train`, and the short one of each trial of a search."""

    max_epochs: int = option(
        20, least=1, grid=True, group="training", help="number of passes over the training data"
    )
    max_steps: int = option(
        -1, least=-1, grid=True, group="training", help="maximum number of optimizer steps; -1: no limit"
    )
    learning_rate: float = training_option(1e-3, least=0, grid=True, help="learning rate")
    weight_decay: float = training_option(0.0, least=0, grid=True, help="weight decay")
    training_optimizer: str = training_option("adam", aliases=("optimizer",), choices=OPTIMIZERS, help="optimizer")
    lr_scheduler: str = training_option("none", choices=SCHEDULES, help="learning rate schedule")


@dataclass(frozen=True, kw_only=True)
class TrainConfig(TrainingOptions, ActionConfig):
    """Train a model on a data set and test its best epoch."""

    supported_tasks: ClassVar[tuple[str, ...]] = ("cls",)
    examples: ClassVar[tuple[str, ...]] = (
        "ch train jsc-tiny jsc --max-epochs 10 --batch-size 256 --learning-rate 0.0001",
        "ch train jsc-tiny jsc --batch-size 64,128,256    one run per batch size, and a table",
        "ch train my_net.py:Net jsc                       a network from your own file",
    )

    accumulate_grad_batches: int = training_option(
        1, least=1, grid=True, help="number of batches per optimizer step"
    )
    distill: bool = low_bits_option(False, help="also learn the outputs of the float model (distillation)")
    teacher: Path | None = option(
        None,
        group="low bits",
        same_on_resume=True,
        help="the model to distill from: a run or checkpoint, latest:train; default: the loaded graph in float",
    )
    distill_temperature: float = low_bits_option(2.0, least=0.01, grid=True, help="temperature of the outputs")
    distill_weight: float = low_bits_option(
        0.5,
        least=0,
        most=1,
        grid=True,
        help="share of the loss that compares with the float model; the rest compares with the labels",
    )
    freeze_batch_norm: int | None = low_bits_option(
        None, least=0, help="number of epochs after which batch norms keep their statistics; 0: from the start"
    )
    rounding_epochs: int = low_bits_option(
        0,
        least=0,
        grid=True,
        help="number of epochs in which rounding grows from none to that of the formats; 0: from the start",
    )
    prune_sparsity: float = low_bits_option(
        0.0, least=0, grid=True, help="share of the weights that training sets to zero, the smallest ones; 0: none"
    )
    prune_epochs: int | None = low_bits_option(
        None, least=1, help="number of epochs in which the sparsity grows; default: half of all epochs"
    )
    prune_scope: Literal["local", "global"] = low_bits_option(
        "local", help="whether each layer has the sparsity, or all layers together"
    )
    prune_granularity: Literal["element", "channel"] = low_bits_option(
        "element", help="what is pruned: weights or output channels"
    )
    resume: bool = option(False, group="training", help="resume an interrupted run")
    workers: int | None = option(None, least=1, group="training", help="number of processes for a list of values")

    def __post_init__(self) -> None:
        super().__post_init__()
        defaults = {field.name: field.default for field in fields(self)}
        for needed, names in _NEEDED.items():
            for name in names:
                if not getattr(self, needed) and getattr(self, name) != defaults[name]:
                    raise ValueError(f"'{name}' has no effect without '{needed}'")
        for name in ("freeze_batch_norm", "rounding_epochs"):
            epochs = getattr(self, name)
            if epochs and epochs >= self.max_epochs:
                raise ValueError(f"'{name}' must be below 'max_epochs', which is {self.max_epochs}, got {epochs}")
        if self.prune_sparsity >= 1:
            raise ValueError(f"'prune_sparsity' must be below 1, got {self.prune_sparsity}")
        if self.prune_epochs is not None and self.prune_epochs > self.max_epochs:
            raise ValueError(
                f"'prune_epochs' must be at most 'max_epochs', which is {self.max_epochs}, got {self.prune_epochs}"
            )


@dataclass(frozen=True)
class TrainGrid:
    """Several training runs: one configuration per combination of the values given for the options `varied`."""

    configs: Sequence[TrainConfig]
    varied: tuple[str, ...]
