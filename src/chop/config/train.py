"""Options of `ch train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from chop.config.base import ActionConfig, option
from chop.config.optimizers import OptimizerName, ScheduleName


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ActionConfig):
    """Train a model on a data set and test its best epoch."""

    supported_tasks: ClassVar[tuple[str, ...]] = ("cls",)
    examples: ClassVar[tuple[str, ...]] = (
        "ch train jsc-tiny jsc --max-epochs 10 --batch-size 256 --learning-rate 0.0001",
        "ch train jsc-tiny jsc --batch-size 64,128,256    one run per batch size, and a table",
        "ch train my_net.py:Net jsc                       a network from your own file",
    )

    max_epochs: int = option(
        20, least=1, grid=True, group="training", help="number of passes over the training data"
    )
    max_steps: int = option(
        -1, least=-1, grid=True, group="training", help="maximum number of optimizer steps; -1: no limit"
    )
    learning_rate: float = option(
        1e-3, least=0, grid=True, group="training", same_on_resume=True, help="learning rate"
    )
    weight_decay: float = option(
        0.0, least=0, grid=True, group="training", same_on_resume=True, help="weight decay"
    )
    training_optimizer: OptimizerName = option("adam", group="training", same_on_resume=True, help="optimizer")
    lr_scheduler: ScheduleName = option(
        "none", group="training", same_on_resume=True, help="learning rate schedule"
    )
    accumulate_grad_batches: int = option(
        1, least=1, grid=True, group="training", same_on_resume=True, help="number of batches per optimizer step"
    )
    resume: bool = option(False, group="training", help="resume an interrupted run")
    workers: int | None = option(None, least=1, group="training", help="number of processes for a list of values")


@dataclass(frozen=True)
class TrainGrid:
    """Several training runs: one configuration per combination of the values given for the options `varied`."""

    configs: Sequence[TrainConfig]
    varied: tuple[str, ...]
