"""The optimizer of a training run, and its learning rate at each step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from chop.config import TrainConfig
from chop.config.train import OPTIMIZERS, SCHEDULES
from chop.ir.graph.learned_scales import scales_of_calls
from chop.nn.quantized import QuantizedLayer

Optimizer = torch.optim.Optimizer
SMALLEST_FACTOR = 2.0**-20
"""The smallest factor of the learning rate of a step."""


def make_optimizer(config: TrainConfig, model: nn.Module) -> Optimizer:
    """Return the optimizer that `config` names; it updates a group of parameters in one fused operation."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"model '{config.model}' has no parameters to train")
    name, arguments = OPTIMIZERS[config.training_optimizer]
    scales = {id(scale): scale for scale in learned_scales(model)}
    groups: list[dict[str, Any]] = [{"params": [each for each in parameters if id(each) not in scales]}]
    for factor, together in _by_magnitude(scales.values(), is_relative="Adam" in name).items():
        groups.append({"params": together, "weight_decay": 0.0, "factor": factor})
    optimizer: Optimizer = getattr(torch.optim, name)(
        groups, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True, **arguments
    )
    return optimizer


def learned_scales(model: nn.Module) -> Iterator[Tensor]:
    """Yield the scales of formats that a model learns."""
    for layer in model.modules():
        if isinstance(layer, QuantizedLayer):
            found = (layer.scale_of(name) for name in layer.formats)
            yield from (scale for scale in found if scale is not None and scale.requires_grad)
        elif isinstance(layer, fx.GraphModule):
            yield from (scale for scale in scales_of_calls(layer) if scale.requires_grad)


def _by_magnitude(scales: Iterable[Tensor], is_relative: bool) -> dict[float, list[Tensor]]:
    """Return scales by the factor of their learning rate.

    Adam changes every parameter by the learning rate, whatever its gradient: this would be too much for a step of
    0.001, and too little for one of 10. So the factor is about the magnitude of the step, as a power of two.
    """
    groups: defaultdict[float, list[Tensor]] = defaultdict(list)
    for scale in scales:
        magnitude = max(float(scale.detach().abs().mean()), SMALLEST_FACTOR)
        groups[2.0 ** round(math.log2(magnitude)) if is_relative else 1.0].append(scale)
    return dict(groups)


def set_learning_rate(optimizer: Optimizer, config: TrainConfig, step: int, num_steps: int) -> float:
    """Set and return the learning rate of step `step` (from 0) of `num_steps`."""
    rate = config.learning_rate * SCHEDULES[config.lr_scheduler](step / max(1, num_steps))
    if step == 0 or rate != optimizer.param_groups[0]["lr"]:
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
    return rate
