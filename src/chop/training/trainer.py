"""A training run with everything around its loop: devices, validation, checkpoints, logs and Ctrl-C."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from chop.config import TrainConfig
from chop.dataset import Rows, Splits
from chop.runs import RunFolder
from chop.statistics.scoring import Score
from chop.tasks import Evaluation, Meter, Reduce
from chop.training.batches import evaluation_batches, to_device
from chop.training.checkpoint import (
    keep_as_best,
    load_model_state,
    model_state,
    random_state,
    read_checkpoint,
    set_random_state,
    write_checkpoint,
)
from chop.training.distillation import Distillation
from chop.training.evaluation import Arguments, evaluate
from chop.training.interrupt import Interrupt
from chop.training.loop import EpochMetrics, Processes, TrainingLoop
from chop.training.metrics_log import MetricsLog
from chop.training.optimizer import Optimizer
from chop.training.phases import Phases
from chop.training.terminal import TrainingProgress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)

NewMeter = Callable[[torch.device], Meter]


class Trainer:
    """A model that is trained, validated after each epoch and saved, on the devices of a `Fabric`."""

    def __init__(
        self,
        config: TrainConfig,
        fabric: Fabric,
        model: nn.Module,
        optimizer: Optimizer,
        splits: Splits,
        new_meter: NewMeter,
        identity: Mapping[str, Any],
        arguments: Arguments | None = None,
        phases: Phases | None = None,
        distillation: Distillation | None = None,
    ) -> None:
        """Move the model and the data to the device; `identity` is what a run that resumes this one must share."""
        self.config, self.fabric, self.identity = config, fabric, identity
        self.module = model
        self.score = Score(fabric.device)
        self.val = to_device(splits.val, fabric.device)
        self.new_meter, self.arguments = new_meter, arguments
        self.history: list[EpochMetrics] = []
        self.seconds = 0.0  # training time, including that of the runs that this one resumes
        options: dict[str, Any] = {
            "score": self.score,
            "arguments": arguments,
            "phases": phases,
            "distillation": None if distillation is None else distillation.to(fabric.device),
        }
        self.loop = _make_loop(config, fabric, model, optimizer, to_device(splits.train, fabric.device), options)

    @property
    def best(self) -> EpochMetrics:
        """The best epoch; the first one if several are equally good. Epochs before the last pruning are worse."""
        first = 0 if self.loop.phases is None else self.loop.phases.first_final_epoch
        return max(self.history, key=lambda each: (each.epoch >= first, each.rank))

    def run(self, folder: RunFolder, log: MetricsLog, progress: TrainingProgress) -> None:
        """Train the remaining epochs. Ctrl-C saves a checkpoint and then raises KeyboardInterrupt."""
        start = time.perf_counter()
        earlier = self.seconds
        if self.fabric.is_global_zero and not folder.last_checkpoint.exists():
            self.save(folder)  # so that a run can be resumed even if it stops in its first epoch
        with Interrupt(active=self.fabric.world_size == 1) as interrupt:
            while not self.loop.is_finished and not interrupt.requested:
                self._train_epoch(log, progress, interrupt)
                self.seconds = earlier + time.perf_counter() - start
                if not interrupt.requested:
                    self._finish_epoch(folder, log, progress)
        progress.close()
        log.flush()
        if interrupt.requested:
            self.save(folder)
            raise KeyboardInterrupt

    def _train_epoch(self, log: MetricsLog, progress: TrainingProgress, interrupt: Interrupt) -> None:
        loop, is_main = self.loop, self.fabric.is_global_zero
        for num_rows, rate, loss in loop.steps():
            progress.step(num_rows, lambda: self._current_metrics(rate))  # noqa: B023  # called at once, if at all
            if loop.step % self.config.log_every_n_steps == 0 and is_main:
                log.add(loop.step, loop.epoch + 1, learning_rate=rate, step_loss=loss.item())
            if interrupt.requested:
                break

    def _current_metrics(self, rate: float) -> str:
        loss, accuracy = self.score.read()
        return f"loss {loss:.4f}  accuracy {accuracy:.4f}  lr {rate:.2e}"

    def _finish_epoch(self, folder: RunFolder, log: MetricsLog, progress: TrainingProgress) -> None:
        val = self.evaluate(self.val)
        train_loss, train_accuracy = self.score.read(self._reduce)
        self.loop.finish_epoch()
        self.score = self.loop.score = Score(self.fabric.device)
        epoch, rate = self.loop.epoch, self.loop.optimizer.param_groups[0]["lr"]
        done = EpochMetrics(epoch, self.loop.step, rate, train_loss, train_accuracy, val.loss, val.accuracy)
        if not math.isfinite(train_loss):
            logger.warning("epoch %d: the loss is %s; try a smaller learning rate", epoch, train_loss)
        self.history.append(done)
        if self.fabric.is_global_zero:
            log.add(**asdict(done))
            log.flush()
            self.save(folder)
        progress.epoch(str(done))

    def evaluate(self, rows: Rows) -> Evaluation:
        """Evaluate the model on `rows`, which the processes share."""
        processes = self.loop.processes
        batches = evaluation_batches(
            rows, self.config.batch_size, rank=processes.rank, world_size=processes.world_size
        )
        device = self.fabric.device
        return evaluate(
            self.loop.model, batches, self.new_meter(device), device, arguments=self.arguments, reduce=self._reduce
        )

    def load_best(self, folder: RunFolder) -> None:
        """Load the weights of the best epoch into the model, in all processes."""
        state = read_checkpoint(folder.best_checkpoint)["state_dict"] if self.fabric.is_global_zero else {}
        load_model_state(self.module, self.fabric.broadcast(state) if self.fabric.world_size > 1 else state)

    @property
    def _reduce(self) -> Reduce | None:
        return self._sum if self.fabric.world_size > 1 else None

    def _sum(self, tensor: Tensor) -> Tensor:
        return cast(Tensor, self.fabric.all_reduce(tensor, reduce_op="sum"))

    def save(self, folder: RunFolder) -> None:
        """Write `last.ckpt`, and `best.ckpt` if the last epoch is the best."""
        write_checkpoint(self.state(), folder.last_checkpoint)
        self.keep_best(folder)

    def keep_best(self, folder: RunFolder) -> None:
        """Make the last checkpoint the best one if it is that of the best epoch."""
        if self.loop.batch == 0 and self.history and self.best is self.history[-1]:
            keep_as_best(folder.last_checkpoint, folder.best_checkpoint)

    def state(self) -> dict[str, Any]:
        """Return the state of the training, in tensors and plain values."""
        return {
            "state_dict": model_state(self.module),
            "optimizer": self.loop.optimizer.state_dict(),
            "lr_scheduler": {"name": self.config.lr_scheduler, "num_steps": self.loop.num_steps},
            "epoch": self.loop.epoch,
            "batch": self.loop.batch,
            "step": self.loop.step,
            "score": self.score.totals(),
            "random": random_state(),
            "history": [asdict(each) for each in self.history],
            "seconds": self.seconds,
            "identity": dict(self.identity),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that was saved."""
        load_model_state(self.module, state["state_dict"])
        settings = [dict(group) for group in self.loop.optimizer.param_groups]
        self.loop.optimizer.load_state_dict(state["optimizer"])
        _check_optimizer_state(self.loop.optimizer, settings)
        self.loop.epoch, self.loop.batch, self.loop.step = (
            _count(state, key) for key in ("epoch", "batch", "step")
        )
        self.history = [_epoch_metrics(each) for each in state["history"]]
        self.seconds = float(state["seconds"])
        self.score.restore(state["score"] if "score" in state else state["meter"])  # "meter" in earlier checkpoints
        set_random_state(state["random"])


def _check_optimizer_state(optimizer: Optimizer, settings: Sequence[Mapping[str, Any]]) -> None:
    """Raise an error unless tensors are scalars or have the shape of their parameter, and settings their types.

    `settings` are the parameter groups of the new optimizer.
    """
    for group, expected in zip(optimizer.param_groups, settings, strict=True):
        for name in group.keys() & expected.keys() - {"params", "fused", "foreign"}:  # these two may be None
            if _kind(group[name]) != _kind(expected[name]):
                raise ValueError(f"'{name}' of the optimizer is {group[name]!r}")
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape not in (torch.Size(), parameter.shape):
                raise ValueError(f"'{name}' of the optimizer has shape {list(value.shape)}")


def _kind(setting: object) -> object:
    """Return the type of a setting: `float` for all numbers, and the types of the items of a tuple."""
    if isinstance(setting, tuple | list):
        return tuple(_kind(item) for item in setting)
    return float if isinstance(setting, int) and not isinstance(setting, bool) else type(setting)


def _count(state: Mapping[str, Any], key: str) -> int:
    """Return a number of a checkpoint that counts something."""
    if type(state[key]) is not int or not 0 <= state[key] < 2**63:
        raise ValueError(f"'{key}' is {state[key]!r}")
    return int(state[key])


def _epoch_metrics(saved: Mapping[str, Any]) -> EpochMetrics:
    """Return the numbers of an epoch in a checkpoint."""
    metrics = EpochMetrics(**saved)
    for name, value in saved.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError(f"'{name}' of an epoch is {value!r}")
    return metrics


def _make_loop(
    config: TrainConfig,
    fabric: Fabric,
    model: nn.Module,
    optimizer: Optimizer,
    rows: Rows,
    options: Mapping[str, Any],
) -> TrainingLoop:
    wrapped_model, wrapped_optimizer = fabric.setup(model, optimizer)
    if fabric.world_size == 1 and config.trainer_precision in ("32", "32-true"):
        # Fabric has moved the module, and its wrappers do nothing more; they take a tenth of a small step.
        return TrainingLoop(config, model, optimizer, rows, **options)
    processes = Processes(
        fabric.global_rank,
        fabric.world_size,
        fabric.backward,
        lambda: fabric.no_backward_sync(wrapped_model, enabled=fabric.world_size > 1),
    )
    return TrainingLoop(config, wrapped_model, wrapped_optimizer, rows, processes=processes, **options)
