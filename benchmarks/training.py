"""Training a small network: `ch train`, Lightning's Trainer, and a bare loop."""

from __future__ import annotations

import logging
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.results import Result
from benchmarks.timing import cpu_times
from chop.config import TrainConfig
from chop.runs import Experiment, RunFolder
from chop.training.devices import make_fabric
from chop.training.metrics_log import open_log
from chop.training.optimizer import make_optimizer
from chop.training.resume import identity
from chop.training.terminal import TrainingProgress
from chop.training.trainer import Trainer

SUMMARY = (
    "jsc-toy on generated jets (36,000 training rows, 4,000 validation rows), Adam, batches of 256, one thread. "
    "Ours and Lightning's Trainer (with its DataLoader over a TensorDataset, torchmetrics' accuracy, "
    "ModelCheckpoint and progress bar) log, validate after each epoch and save the best and the last epoch; the "
    "bare loop only trains, with a fused Adam on slices of one shuffled tensor. CPU time, median of alternating "
    "runs, without imports and without loading the data; k/s: thousand samples per second."
)
UNIT = "x its time"


def run(quick: bool = False) -> list[Result]:
    """Return both ratios, or one if Lightning is not installed; `quick` uses few rows, for tests."""
    epochs, rows, repeats = (1, 2_000, 1) if quick else (4, 50_000, 5)
    logging.getLogger("chop").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        config = TrainConfig(
            model="jsc-toy",
            dataset="jsc",
            batch_size=256,
            max_epochs=epochs,
            data_options={"num_rows": rows},
            accelerator="cpu",
            project_dir=Path(name),
        )
        experiment = Experiment.load(config)
        runs = [
            lambda: train_ours(config, experiment, RunFolder(Path(tempfile.mkdtemp(dir=name)))),
            lambda: train_bare(config, experiment),
            lambda: train_with_lightning(config, experiment, Path(tempfile.mkdtemp(dir=name))),
        ]
        if find_spec("pytorch_lightning") is None:
            print("training: without Lightning's Trainer; pip install -c constraints.txt -e .[bench]")
            del runs[2]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            ours, bare, *lightning = cpu_times(*runs, repeats=repeats, warm_up=1)
    speed = epochs * len(experiment.data.splits.train.labels) / 1000
    results = [
        Result(f"ours ({speed / ours:.0f}k/s) against a bare loop ({speed / bare:.0f}k/s)", ours / bare, 1.4, UNIT)
    ]
    for taken in lightning:
        what = f"ours ({speed / ours:.0f}k/s) against Lightning's Trainer ({speed / taken:.0f}k/s)"
        results.append(Result(what, ours / taken, 0.333, UNIT))
    return results


def train_ours(config: TrainConfig, experiment: Experiment, folder: RunFolder) -> None:
    same = identity(config, experiment.data.splits.sha256)
    model = _untrained_model(experiment)
    optimizer = make_optimizer(config, model)
    folder.checkpoints.mkdir(parents=True)
    trainer = Trainer(config, make_fabric(config), model, optimizer, experiment.data.splits, experiment.meter, same)
    log = open_log(config, folder, 0)
    trainer.run(folder, log, TrainingProgress(config.max_epochs, trainer.loop.num_batches, 0))
    log.close()


def train_bare(config: TrainConfig, experiment: Experiment) -> None:
    model = _untrained_model(experiment).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True)
    features, labels = experiment.data.splits.train
    for _ in range(config.max_epochs):
        order = torch.randperm(len(labels))
        xs, ys = features[order].split(config.batch_size), labels[order].split(config.batch_size)
        for x, y in zip(xs, ys, strict=True):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()


def train_with_lightning(config: TrainConfig, experiment: Experiment, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends workers, which would make it slower
        from pytorch_lightning import Trainer
        from pytorch_lightning.callbacks import ModelCheckpoint
        from pytorch_lightning.loggers import CSVLogger

        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        checkpoints = ModelCheckpoint(folder, filename="best", monitor="val_accuracy", mode="max", save_last=True)
        trainer = Trainer(
            accelerator="cpu",
            max_epochs=config.max_epochs,
            callbacks=[checkpoints],
            logger=CSVLogger(folder),
            log_every_n_steps=config.log_every_n_steps,
            num_sanity_val_steps=0,
            enable_model_summary=False,
        )
        splits = experiment.data.splits
        train = DataLoader(TensorDataset(*splits.train), batch_size=config.batch_size, shuffle=True)
        val = DataLoader(TensorDataset(*splits.val), batch_size=config.batch_size)
        trainer.fit(_lightning_module(_untrained_model(experiment), config.learning_rate), train, val)


def _lightning_module(model: nn.Module, learning_rate: float) -> Any:
    from pytorch_lightning import LightningModule
    from torchmetrics.classification import MulticlassAccuracy

    class Classifier(LightningModule):  # type: ignore[misc, unused-ignore]  # an optional package
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.train_accuracy = MulticlassAccuracy(num_classes=5, average="micro")
            self.val_accuracy = MulticlassAccuracy(num_classes=5, average="micro")

        def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            x, y = batch
            logits = self.model(x)
            loss = F.cross_entropy(logits, y)
            self.train_accuracy(logits, y)
            self.log("train_loss", loss, prog_bar=True)
            self.log("train_accuracy", self.train_accuracy, on_step=False, on_epoch=True, prog_bar=True)
            return loss

        def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
            x, y = batch
            logits = self.model(x)
            self.val_accuracy(logits, y)
            self.log("val_loss", F.cross_entropy(logits, y), prog_bar=True)
            self.log("val_accuracy", self.val_accuracy, on_epoch=True, prog_bar=True)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=learning_rate)

    return Classifier()


def _untrained_model(experiment: Experiment) -> nn.Module:
    torch.manual_seed(0)
    return experiment.model_info.build(experiment.data.dataset_info)
