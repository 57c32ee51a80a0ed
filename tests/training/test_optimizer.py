"""Optimizers and learning rate schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from chop.config import TrainConfig
from chop.config.train import OPTIMIZERS, SCHEDULES
from chop.options import read_options
from chop.training.optimizer import make_optimizer, set_learning_rate


@pytest.mark.parametrize(
    ("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)]
)
def test_the_named_optimizer_is_fused(train_config: TrainConfig, name: Any, kind: type) -> None:
    config = replace(train_config, training_optimizer=name, learning_rate=0.5, weight_decay=0.25)
    optimizer = make_optimizer(config, nn.Linear(2, 2))
    assert type(optimizer) is kind
    group = optimizer.param_groups[0]
    assert (group["fused"], group["lr"], group["weight_decay"]) == (True, 0.5, 0.25)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_makes_a_step(train_config: TrainConfig, name: str) -> None:
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    optimizer = make_optimizer(replace(train_config, training_optimizer=name), model)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert not model.weight.equal(before)


def test_an_unknown_optimizer_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown optimizer 'adm'; did you mean 'adam'"):
        read_options(TrainConfig, {"model": "toy", "dataset": "toy_tiny", "training_optimizer": "adm"}, "run.toml")


def test_a_model_without_parameters_is_named(train_config: TrainConfig) -> None:
    with pytest.raises(ValueError, match="model 'toy' has no parameters to train"):
        make_optimizer(train_config, nn.ReLU())


@pytest.mark.parametrize(
    ("name", "at_start", "at_half", "at_end"),
    [("none", 1, 1, 1), ("cosine", 1, 0.5, 0), ("linear", 1, 0.5, 0), ("step", 1, 0.1, 0.01)],
)
def test_schedules_worked_out_by_hand(name: str, at_start: float, at_half: float, at_end: float) -> None:
    schedule = SCHEDULES[name]
    assert [schedule(done) for done in (0, 0.5, 1)] == pytest.approx([at_start, at_half, at_end])


def test_the_learning_rate_follows_the_step(train_config: TrainConfig) -> None:
    config = replace(train_config, lr_scheduler="linear", learning_rate=1.0)
    optimizer = make_optimizer(config, nn.Linear(2, 2))
    assert [set_learning_rate(optimizer, config, step, 4) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]
    assert optimizer.param_groups[0]["lr"] == 0.25
