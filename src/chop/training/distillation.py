"""Distillation: training with the outputs of another model beside the labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.config import TrainConfig
from chop.display.launcher import option_name
from chop.ir import MaseGraph
from chop.runs import Experiment
from chop.runs.experiment import without_formats
from chop.tasks.base import first_tensor


@dataclass(frozen=True)
class Distillation:
    """The model whose outputs are learned, in evaluation mode, and how (Hinton et al., 2015)."""

    teacher: nn.Module
    temperature: float
    weight: float

    def to(self, device: torch.device) -> Distillation:
        """Return the same with the teacher on a device."""
        return Distillation(self.teacher.to(device), self.temperature, self.weight)

    def loss(self, from_labels: Tensor, logits: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return the sum over rows of both losses; `args` are those of the models, `from_labels` is a sum too.

        That of the teacher is the divergence of the softened outputs times the temperature squared, so that its
        gradients stay as large as those of the labels.
        """
        with torch.no_grad():
            goal = first_tensor(self.teacher(*args, **kwargs)).to(logits.dtype)
        ours, theirs = ((each / self.temperature).log_softmax(-1) for each in (logits, goal))
        divergence = F.kl_div(ours, theirs, reduction="sum", log_target=True) * self.temperature**2
        return (1 - self.weight) * from_labels + self.weight * divergence


def find_teacher(config: TrainConfig, experiment: Experiment) -> Distillation | None:
    """Return the distillation that the options ask for: from `teacher`, else from the loaded graph in float."""
    if not config.distill:
        return None
    if config.teacher is not None:
        own = replace(config, load_name=config.teacher, load_type="auto")
        teacher = Experiment.load(own, experiment.data).model
    else:
        plain = without_formats(MaseGraph(experiment.model)) if experiment.is_graph else None
        if plain is None:
            raise ValueError(
                f"'distill' needs a model to learn from: load a quantised graph, whose float version it is, with "
                f"{option_name('load')}, or name a trained run with {option_name('teacher')}"
            )
        teacher = plain
    return Distillation(teacher.requires_grad_(False).eval(), config.distill_temperature, config.distill_weight)
