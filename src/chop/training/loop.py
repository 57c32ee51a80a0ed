"""The training loop: epochs of optimizer steps, without devices, checkpoints or logs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from chop.config import TrainConfig
from chop.dataset import Rows
from chop.statistics.scoring import Score
from chop.tasks.base import first_tensor
from chop.training.batches import Batch, num_batches, shuffled_batches
from chop.training.checkpoint import seed_all
from chop.training.distillation import Distillation
from chop.training.evaluation import Arguments
from chop.training.optimizer import make_optimizer, set_learning_rate
from chop.training.phases import Phases
from chop.training.seeds import derived_seed


@dataclass(frozen=True)
class EpochMetrics:
    """The numbers of a finished epoch; the first epoch is number 1."""

    epoch: int
    step: int
    learning_rate: float
    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key, larger is better: the validation accuracy, then the loss; last if the loss is NaN."""
        return (self.val_accuracy, -self.val_loss) if math.isfinite(self.val_loss) else (-1.0, 0.0)

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch:3}  loss {self.train_loss:.4f}  accuracy {self.train_accuracy:.4f}  "
            f"val loss {self.val_loss:.4f}  val accuracy {self.val_accuracy:.4f}  lr {self.learning_rate:.2e}"
        )


class StepResult(NamedTuple):
    """One optimizer step: its rows in all processes, its learning rate, and the mean loss of its last batch."""

    num_rows: int
    learning_rate: float
    loss: Tensor


@dataclass(frozen=True)
class Processes:
    """How several processes share each batch; by default there is one process."""

    rank: int = 0
    world_size: int = 1
    backward: Callable[[Tensor], None] = Tensor.backward
    no_sync: Callable[[], AbstractContextManager[None]] = nullcontext
    """Suspends the averaging of gradients, for all batches of a step but the last."""


ONE_PROCESS = Processes()


class TrainingLoop:
    """Optimizer steps over shuffled rows, and the position in them: `epoch`, `batch` in the epoch, and `step`."""

    def __init__(
        self,
        config: TrainConfig,
        model: nn.Module,
        optimizer: Any,  # a torch optimizer, or what Fabric wraps around one
        rows: Rows,
        *,
        score: Score | None = None,
        processes: Processes = ONE_PROCESS,
        arguments: Arguments | None = None,
        phases: Phases | None = None,
        distillation: Distillation | None = None,
    ) -> None:
        """Start at the first step. `score`, if given, adds up loss and accuracy of the training batches.

        `arguments` returns the model's arguments for some rows; by default, they are the first one. `phases` is
        what changes over the epochs, `distillation` another model to learn from.
        """
        self.phases, self.distillation = phases, distillation
        self.config, self.model, self.optimizer, self.rows = config, model, optimizer, rows
        self.score, self.processes, self.arguments = score, processes, arguments
        self.device = next(model.parameters()).device
        self.epoch = self.batch = self.step = 0
        self.num_batches = num_batches(len(rows.labels), config.batch_size)
        self.steps_per_epoch = math.ceil(self.num_batches / config.accumulate_grad_batches)
        steps = config.max_epochs * self.steps_per_epoch
        self.num_steps = steps if config.max_steps < 1 else min(steps, config.max_steps)

    @property
    def is_finished(self) -> bool:
        return self.epoch >= self.config.max_epochs or self.step >= self.num_steps

    def steps(self) -> Iterator[StepResult]:
        """Train the rest of the epoch, yielding after each step; seed and epoch decide all random numbers."""
        config, processes = self.config, self.processes
        if self.batch == 0:
            seed_all(derived_seed(config.seed, self.epoch, processes.rank))
        self.model.train()
        if self.phases is not None:
            self.phases.begin_epoch(self.epoch, self.optimizer, is_new=self.batch == 0)
        batches = shuffled_batches(
            self.rows,
            config.batch_size,
            config.seed,
            self.epoch,
            skip=self.batch,
            rank=processes.rank,
            world_size=processes.world_size,
        )
        for group in _groups(batches, config.accumulate_grad_batches):
            rate = set_learning_rate(self.optimizer, config, self.step, self.num_steps)
            num_rows = sum(batch.num_rows for batch in group)
            loss = self.update(group, num_rows)
            self.step += 1
            self.batch += len(group)
            yield StepResult(num_rows, rate, loss)
            if self.step == self.num_steps:
                break

    def update(self, group: list[Batch], num_rows: int) -> Tensor:
        """Make one step with the gradients of a group of batches; return the mean loss of the last batch."""
        processes, last = self.processes, len(group) - 1
        for i, batch in enumerate(group):
            features, labels = batch.features.to(self.device), batch.labels.to(self.device)
            with nullcontext() if i == last else processes.no_sync():
                logits, loss, total = self._losses(features, labels)
                # Processes average their gradients: this makes it the mean over all rows of the group.
                processes.backward(total * (processes.world_size / num_rows))
            if self.score is not None:
                self.score.add(logits, labels, loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach() / max(1, len(labels))

    def _losses(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs, their summed loss with the labels, and the loss that is minimised."""
        inputs = {} if self.arguments is None else self.arguments(features)
        args = () if inputs else (features,)
        rounding = nullcontext() if self.phases is None else self.phases.rounding(self.step, self.steps_per_epoch)
        with rounding:
            logits = first_tensor(self.model(*args, **inputs))
        loss = F.cross_entropy(logits, labels, reduction="sum")
        if self.distillation is None:
            return logits, loss, loss
        return logits, loss, self.distillation.loss(loss, logits, *args, **inputs)

    def finish_epoch(self) -> None:
        """Move on to the first batch of the next epoch."""
        self.epoch, self.batch = self.epoch + 1, 0


def train_epochs(model: nn.Module, rows: Rows, config: TrainConfig) -> Iterator[int]:
    """Train `model` in place on one device; yield the number of finished epochs after each one."""
    loop = TrainingLoop(config, model, make_optimizer(config, model), rows)
    while not loop.is_finished:
        for _ in loop.steps():
            pass
        loop.finish_epoch()
        yield loop.epoch


def _groups(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    iterator = iter(batches)
    while group := list(islice(iterator, size)):
        yield group
