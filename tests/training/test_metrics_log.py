"""`metrics.jsonl`, TensorBoard and Weights & Biases."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chop.config import TrainConfig
from chop.runs import RunFolder
from chop.training.metrics_log import check_reporter, open_log


def steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_log_drops_the_lines_that_are_written_again(train_config: TrainConfig, tmp_path: Path) -> None:
    config = replace(train_config, report_to="none")
    log = open_log(config, RunFolder(tmp_path), 0)
    for step in (5, 10, 15):
        log.add(step, 1, loss=0.5)
    log.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 20, "ep')  # cut off when the process was killed
    log = open_log(config, RunFolder(tmp_path), 10)
    log.add(15, 1, loss=0.25)
    log.close()
    assert steps(tmp_path) == [5, 10, 15]
    assert not (tmp_path / "software").exists()


def test_tensorboard_gets_the_same_numbers(train_config: TrainConfig, tmp_path: Path) -> None:
    log = open_log(train_config, RunFolder(tmp_path), 0)
    log.add(5, 1, train_loss=0.5)
    log.flush()
    (file,) = (tmp_path / "software/tensorboard").iterdir()
    assert b"train_loss" in file.read_bytes()
    log.close()


def test_wandb_is_used_if_it_is_installed(
    train_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    run = types.SimpleNamespace(
        log=lambda values, step: calls.append((values, step)), finish=lambda: calls.append("end")
    )

    def init(project: str, **options: object) -> object:
        calls.append(project)
        return run

    module = types.ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    config = replace(train_config, report_to="wandb", project="mine")
    check_reporter(config)
    log = open_log(config, RunFolder(tmp_path), 0)
    log.add(5, 1, loss=0.5)
    log.close()
    assert calls == ["mine", ({"loss": 0.5}, 5), "end"]
