"""Options of `ch train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chop.config.base import ActionConfig, option


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ActionConfig):
    """Train a model on a data set and test its best epoch."""

    max_epochs: int = option(20, least=1, grid=True, group="training", help="passes over the training data")
    max_steps: int = option(
        -1, least=-1, grid=True, group="training", help="stop after this many steps; -1: no limit"
    )
    learning_rate: float = option(
        1e-3, least=0, grid=True, group="training", same_on_resume=True, help="learning rate"
    )
    weight_decay: float = option(
        0.0, least=0, grid=True, group="training", same_on_resume=True, help="weight decay"
    )
    training_optimizer: Literal["adam", "sgd", "adamw"] = option(
        "adam", group="training", same_on_resume=True, help="optimizer"
    )
    lr_scheduler: Literal["none", "cosine", "linear", "step"] = option(
        "none", group="training", same_on_resume=True, help="learning rate schedule"
    )
    accumulate_grad_batches: int = option(
        1, least=1, grid=True, group="training", same_on_resume=True, help="batches per optimizer step"
    )
    resume: bool = option(False, group="training", help="resume a run that was stopped")
