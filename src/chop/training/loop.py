"""The training loop: epochs of steps, each epoch validated and saved."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

from chop.config import TrainConfig
from chop.dataset import Rows, Splits
from chop.runs import RunFolder
from chop.training.batches import Batch, in_order, num_batches, place, shuffled
from chop.training.checkpoint import (
    keep_as_best,
    load_model_state,
    model_state,
    random_state,
    read_checkpoint,
    seed_all,
    set_random_state,
    write_checkpoint,
)
from chop.training.epoch import Epoch
from chop.training.interrupt import Interrupt
from chop.training.metrics import Evaluation, Meter, Reduce, evaluate
from chop.training.metrics_log import MetricsLog
from chop.training.optimizer import Optimizer, set_learning_rate
from chop.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)


class Training:
    """A model on its way: where it is (`epoch`, `batch` in it, `step`), and all that takes it further."""

    def __init__(
        self,
        config: TrainConfig,
        fabric: Fabric,
        model: nn.Module,
        optimizer: Optimizer,
        splits: Splits,
        num_classes: int,
        identity: Mapping[str, Any],
    ) -> None:
        self.config, self.fabric, self.identity = config, fabric, identity
        self.module = model
        self.model: Any  # what Fabric wraps around the module
        self.optimizer: Any
        self.model, self.optimizer = fabric.setup(model, optimizer)
        self._backward: Callable[[Tensor], None] = fabric.backward
        if fabric.world_size == 1 and config.trainer_precision in ("32", "32-true"):
            # Fabric has placed the module and would do no more; its wrappers cost a tenth of a small step.
            self.model, self.optimizer, self._backward = model, optimizer, Tensor.backward
        self.train, self.val = place(splits.train, fabric.device), place(splits.val, fabric.device)
        self.num_classes = num_classes
        self.epoch = self.batch = self.step = 0
        self.history: list[Epoch] = []
        self.seconds = 0.0  # of the runs that this one continues
        self.meter = Meter(fabric.device)
        self.num_batches = num_batches(len(self.train.labels), config.batch_size)
        steps = config.max_epochs * math.ceil(self.num_batches / config.accumulate_grad_batches)
        self.num_steps = steps if config.max_steps < 1 else min(steps, config.max_steps)

    @property
    def best(self) -> Epoch:
        """The first of the best epochs."""
        return max(self.history, key=lambda each: each.rank)

    def run(self, folder: RunFolder, log: MetricsLog, progress: Progress) -> None:
        """All epochs that are left. Ctrl-C saves where it is, and then raises KeyboardInterrupt."""
        start = time.perf_counter()
        earlier = self.seconds
        if self.fabric.is_global_zero and not folder.last_checkpoint.exists():
            self.save(folder)  # a run can be resumed from its first moment on
        with Interrupt(active=self.fabric.world_size == 1) as interrupt:
            while self.epoch < self.config.max_epochs and self.step < self.num_steps and not interrupt.asked:
                self._train_epoch(log, progress, interrupt)
                self.seconds = earlier + time.perf_counter() - start
                if not interrupt.asked:
                    self._finish_epoch(folder, log, progress)
        progress.close()
        log.flush()
        if interrupt.asked:
            self.save(folder)
            raise KeyboardInterrupt

    def _train_epoch(self, log: MetricsLog, progress: Progress, interrupt: Interrupt) -> None:
        config, fabric = self.config, self.fabric
        if self.batch == 0:
            seed_all((config.seed * 1_000_003 + self.epoch) * 1_009 + fabric.global_rank)
        self.model.train()
        batches = shuffled(
            self.train,
            config.batch_size,
            config.seed,
            self.epoch,
            skip=self.batch,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
        )
        for group in _groups(batches, config.accumulate_grad_batches):
            rate = set_learning_rate(self.optimizer, config, self.step, self.num_steps)
            loss = self._update(group)
            self.step += 1
            self.batch += len(group)
            progress.step(sum(batch.num_rows for batch in group), lambda: self._numbers(rate))  # noqa: B023
            if self.step % config.log_every_n_steps == 0 and fabric.is_global_zero:
                log.add(self.step, self.epoch + 1, learning_rate=rate, step_loss=loss.item())
            if self.step == self.num_steps or interrupt.asked:
                break

    def _update(self, group: list[Batch]) -> Tensor:
        """One step with the gradients of a group of batches; the mean loss of its last batch is returned."""
        num_rows = sum(batch.num_rows for batch in group)
        for i, batch in enumerate(group, 1):
            features, labels = batch.features.to(self.fabric.device), batch.labels.to(self.fabric.device)
            with self._gradients_meet(i == len(group)):
                logits = self.model(features)
                loss = F.cross_entropy(logits, labels, reduction="sum")
                # Processes average their gradients: this makes it the mean over all rows of the group.
                self._backward(loss * (self.fabric.world_size / num_rows))
            self.meter.add(loss, logits, labels)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach() / max(1, len(labels))

    def _gradients_meet(self, now: bool) -> AbstractContextManager[None]:
        if now or self.fabric.world_size == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self.model)

    def _numbers(self, rate: float) -> str:
        loss, accuracy = self.meter.read()
        return f"loss {loss:.4f}  accuracy {accuracy:.4f}  lr {rate:.2e}"

    def evaluate(self, rows: Rows) -> Evaluation:
        """The model on some rows, of which each process takes its share."""
        fabric = self.fabric
        batches = in_order(rows, self.config.batch_size, rank=fabric.global_rank, world_size=fabric.world_size)
        return evaluate(self.model, batches, self.num_classes, fabric.device, self._reduce)

    def use_best(self, folder: RunFolder) -> None:
        """Put the weights of `best.ckpt` into the model, in all processes."""
        state = read_checkpoint(folder.best_checkpoint)["state_dict"] if self.fabric.is_global_zero else {}
        load_model_state(self.module, self.fabric.broadcast(state) if self._reduce else state)

    @property
    def _reduce(self) -> Reduce | None:
        return self._sum if self.fabric.world_size > 1 else None

    def _sum(self, tensor: Tensor) -> Tensor:
        return cast(Tensor, self.fabric.all_reduce(tensor, reduce_op="sum"))

    def _finish_epoch(self, folder: RunFolder, log: MetricsLog, progress: Progress) -> None:
        val = self.evaluate(self.val)
        train_loss, train_accuracy = self.meter.read(self._reduce)
        self.epoch, self.batch, self.meter = self.epoch + 1, 0, Meter(self.fabric.device)
        rate = self.optimizer.param_groups[0]["lr"]
        done = Epoch(self.epoch, self.step, rate, train_loss, train_accuracy, val.loss, val.accuracy)
        if not math.isfinite(train_loss):
            logger.warning("epoch %d: the loss is %s; try a smaller learning rate", self.epoch, train_loss)
        self.history.append(done)
        if self.fabric.is_global_zero:
            log.add(**asdict(done))
            log.flush()
            self.save(folder)
        progress.epoch(str(done))

    def save(self, folder: RunFolder) -> None:
        """`last.ckpt`, and `best.ckpt` where the last epoch is the best."""
        write_checkpoint(self.content(), folder.last_checkpoint)
        self.keep_best(folder)

    def keep_best(self, folder: RunFolder) -> None:
        if self.batch == 0 and self.history and self.best is self.history[-1]:
            keep_as_best(folder.last_checkpoint, folder.best_checkpoint)

    def content(self) -> dict[str, Any]:
        """The state of the run, in tensors and plain values."""
        return {
            "state_dict": model_state(self.module),
            "optimizer": self.optimizer.state_dict(),
            "lr_scheduler": {"name": self.config.lr_scheduler, "num_steps": self.num_steps},
            "epoch": self.epoch,
            "batch": self.batch,
            "step": self.step,
            "meter": self.meter.totals(),
            "random": random_state(),
            "history": [asdict(each) for each in self.history],
            "seconds": self.seconds,
            "identity": dict(self.identity),
        }

    def restore(self, content: Mapping[str, Any]) -> None:
        """Go on where `content` was saved."""
        load_model_state(self.module, content["state_dict"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.epoch, self.batch, self.step = content["epoch"], content["batch"], content["step"]
        self.history = [Epoch(**each) for each in content["history"]]
        self.seconds = content["seconds"]
        self.meter.restore(content["meter"])
        set_random_state(content["random"])


def _groups(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    iterator = iter(batches)
    while group := list(islice(iterator, size)):
        yield group
