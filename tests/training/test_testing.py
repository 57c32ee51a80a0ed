"""`ch test`: the results of a checkpoint, in a run folder."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from chop.actions.test import test as run_test
from chop.config import TestConfig, TrainConfig

pytestmark = pytest.mark.slow


@pytest.fixture
def config(train_config: TrainConfig) -> TestConfig:
    return TestConfig(model="toy", dataset="toy_tiny", accelerator="cpu", project_dir=train_config.project_dir)


def test_the_files_of_a_run(config: TestConfig, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_test(config)
    files = {file.name for file in folder.iterdir()}
    assert files == {"run.toml", "metrics.jsonl", "summary.json", "confusion.png", "software"}
    assert "data: toy_tiny (synthetic)" in capsys.readouterr().out
    summary = json.loads((folder / "summary.json").read_text())
    line = json.loads((folder / "metrics.jsonl").read_text())
    assert line["test_accuracy"] == summary["test"]["accuracy"]


def test_untrained_weights_are_a_warning(config: TestConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="chop"):
        run_test(config)
    assert "no checkpoint is loaded: 'toy' has untrained weights" in caplog.text


def test_an_error_leaves_no_folder(config: TestConfig) -> None:
    with pytest.raises(ValueError, match=r"checkpoint 'no.ckpt' does not exist"):
        run_test(replace(config, load_name=Path("no.ckpt")))
    assert not config.project_dir.exists()
