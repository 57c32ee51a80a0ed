"""The rule of a step, and how its size falls over a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from chop.config import TrainConfig

Optimizer = torch.optim.Optimizer

SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "none": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "step": lambda done: 0.1 ** ((done >= 0.5) + (done >= 0.75)),  # a tenth at one half, and at three quarters
}
"""The share of the learning rate that is left when a share of the steps is done. A function of the step and
nothing else, so that a run that is resumed needs no state of it."""


def make_optimizer(config: TrainConfig, model: nn.Module) -> Optimizer:
    """The optimiser that the configuration names, updating all parameters in one fused operation."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"model '{config.model}' has no parameters to train")
    rate, decay = config.learning_rate, config.weight_decay
    match config.training_optimizer:
        case "adam":
            return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
        case "adamw":
            return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
        case "sgd":
            return torch.optim.SGD(parameters, lr=rate, weight_decay=decay, momentum=0.9, fused=True)


def set_learning_rate(optimizer: Optimizer, config: TrainConfig, step: int, num_steps: int) -> float:
    """The learning rate of step number `step` (from 0) of `num_steps`."""
    rate = config.learning_rate * SCHEDULES[config.lr_scheduler](step / max(1, num_steps))
    if rate != optimizer.param_groups[0]["lr"]:
        for group in optimizer.param_groups:
            group["lr"] = rate
    return rate
