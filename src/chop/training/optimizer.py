"""The optimizer of a training run, and its learning rate at each step."""

from __future__ import annotations

import torch
from torch import nn

from chop.config import TrainConfig
from chop.config.optimizers import OPTIMIZERS, SCHEDULES

Optimizer = torch.optim.Optimizer


def make_optimizer(config: TrainConfig, model: nn.Module) -> Optimizer:
    """Return the optimizer that `config` names; it updates all parameters in one fused operation."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"model '{config.model}' has no parameters to train")
    name, arguments = OPTIMIZERS[config.training_optimizer]
    optimizer: Optimizer = getattr(torch.optim, name)(
        parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True, **arguments
    )
    return optimizer


def set_learning_rate(optimizer: Optimizer, config: TrainConfig, step: int, num_steps: int) -> float:
    """Set and return the learning rate of step `step` (from 0) of `num_steps`."""
    rate = config.learning_rate * SCHEDULES[config.lr_scheduler](step / max(1, num_steps))
    if rate != optimizer.param_groups[0]["lr"]:
        for group in optimizer.param_groups:
            group["lr"] = rate
    return rate
