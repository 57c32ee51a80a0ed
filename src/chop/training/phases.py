"""What changes from epoch to epoch of a training: rounding, batch norms and pruning."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from torch import nn

from chop.config import TrainConfig
from chop.display.launcher import option_name
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.nn.quantized.rounding import rounding_share
from chop.passes.graph.transforms.gradual_pruning import GradualPruning

# The base class of batch norms has no public name.
BatchNorm = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True)
class Phases:
    """The changes that the options ask for; each depends on nothing but the epoch or the step."""

    config: TrainConfig
    model: nn.Module
    pruning: GradualPruning | None = None

    def check(self) -> None:
        """Raise an error if an option has nothing to work on."""
        config = self.config
        parts = (part for part in _parts(self.model) if isinstance(part, QuantizedLayer | QuantizedCall))
        rounds = any(number_format.rounds for part in parts for number_format in part.formats.values())
        if config.rounding_epochs and not rounds:
            raise ValueError(
                f"'rounding_epochs' needs a quantised graph, but nothing in model '{config.model}' is quantised; "
                f"load one with {option_name('load')}"
            )
        if config.freeze_batch_norm is not None and not _batch_norms(self.model):
            raise ValueError(f"'freeze_batch_norm': model '{config.model}' has no batch norm")

    @property
    def first_final_epoch(self) -> int:
        """The number of the first epoch that ends with the sparsity that is asked for, counted from 1."""
        return 1 if self.pruning is None else self.pruning.num_epochs

    def begin_epoch(self, epoch: int, optimizer: Any, is_new: bool) -> None:
        """Prepare the model, in training mode, for an epoch; `is_new` is false in the middle of a resumed one."""
        frozen_from = self.config.freeze_batch_norm
        if frozen_from is not None and epoch >= frozen_from:
            for norm in _batch_norms(self.model):
                norm.eval()
        if self.pruning is not None and is_new:
            self.pruning.begin_epoch(epoch, optimizer.state)

    def rounding(self, step: int, steps_per_epoch: int) -> AbstractContextManager[None]:
        """Return the context of a step's forward pass, in which values may be rounded in part."""
        if not self.config.rounding_epochs:
            return nullcontext()
        return rounding_share(min(1.0, step / (self.config.rounding_epochs * steps_per_epoch)))


def _batch_norms(model: nn.Module) -> list[nn.Module]:
    return [each for each in model.modules() if isinstance(each, BatchNorm)]


def _parts(model: nn.Module) -> list[object]:
    """Return the layers of a model, and the functions that its graph calls."""
    graph = getattr(model, "graph", None)
    calls = [] if graph is None else [node.target for node in graph.nodes]
    return [*model.modules(), *calls]
