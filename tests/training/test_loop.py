"""The training loop: which epoch is best, and epochs without devices, checkpoints or logs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from chop.config import TrainConfig
from chop.runs import Experiment
from chop.training.loop import EpochMetrics, TrainingLoop, train_epochs
from chop.training.optimizer import make_optimizer
from chop.training.train import train


def epoch(accuracy: float, loss: float) -> EpochMetrics:
    return EpochMetrics(1, 10, 0.1, 0.5, 0.5, val_loss=loss, val_accuracy=accuracy)


def test_epochs_are_ranked_by_accuracy_and_then_by_loss() -> None:
    assert epoch(0.9, 2.0).rank > epoch(0.8, 1.0).rank
    assert epoch(0.9, 1.0).rank > epoch(0.9, 2.0).rank


def test_an_epoch_whose_loss_is_nan_ranks_last() -> None:
    assert epoch(0.0, 99.0).rank > epoch(0.9, math.nan).rank


def test_the_line_of_an_epoch_has_all_its_numbers() -> None:
    line = "epoch   1  loss 0.5000  accuracy 0.5000  val loss 0.2500  val accuracy 0.7500  lr 1.00e-01"
    assert str(epoch(0.75, 0.25)) == line


def make_loop(config: TrainConfig) -> TrainingLoop:
    experiment = Experiment.load(config)
    model = experiment.model
    return TrainingLoop(config, model, make_optimizer(config, model), experiment.data.splits.train)


def test_the_position_after_each_step(train_config: TrainConfig) -> None:
    loop = make_loop(replace(train_config, accumulate_grad_batches=5))  # 12 batches per epoch: 5 + 5 + 2
    rows = [step.num_rows for step in loop.steps()]
    assert rows == [5 * 64, 5 * 64, 720 - 10 * 64]
    assert (loop.epoch, loop.batch, loop.step, loop.num_steps) == (0, 12, 3, 6)
    loop.finish_epoch()
    assert (loop.epoch, loop.batch, loop.is_finished) == (1, 0, False)
    for _ in loop.steps():
        pass
    assert loop.is_finished


@pytest.mark.parametrize(("max_steps", "expected"), [(-1, [1, 2]), (12, [1]), (15, [1, 2]), (5, [1])])
def test_epochs_end_at_the_last_step(train_config: TrainConfig, max_steps: int, expected: list[int]) -> None:
    experiment = Experiment.load(train_config)
    config = replace(train_config, max_steps=max_steps)
    assert list(train_epochs(experiment.model, experiment.data.splits.train, config)) == expected


@pytest.mark.slow
def test_epochs_give_the_weights_of_ch_train(train_config: TrainConfig, dropout_net: str) -> None:
    config = replace(train_config, model=dropout_net, lr_scheduler="cosine", accumulate_grad_batches=2)
    experiment = Experiment.load(config)
    for _ in train_epochs(experiment.model, experiment.data.splits.train, config):
        pass
    saved = torch.load(train(config).last_checkpoint, weights_only=True)["state_dict"]
    assert all(saved[f"model.{key}"].equal(value) for key, value in experiment.model.state_dict().items())
