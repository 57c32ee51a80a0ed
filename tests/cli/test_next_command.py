"""The command that is proposed after each command can be typed as it is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chop.cli.next_command import next_command
from chop.cli.parser import parse
from chop.config import ACTIONS, ActionConfig, CommandConfig, TrainConfig, TrainGrid
from chop.config.settings import read_settings
from chop.options import read_options
from chop.runs import RunFolder

INPUTS = {"model": "toy", "dataset": "toy_tiny"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run in the current folder with a configuration of every kind."""
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create(Path("mase_output"), "a run")
    folder.search.mkdir()
    for path in (folder.config, folder.best_config, folder.sweep_config):
        path.write_text('model = "toy"\ndataset = "toy_tiny"\n')
    return folder


def config(action: str, **options: Any) -> CommandConfig:
    given: Mapping[str, Any] = INPUTS | options if issubclass(ACTIONS[action], ActionConfig) else options
    return read_options(ACTIONS[action], given, action)


@pytest.mark.parametrize(
    ("action", "options", "expected"),
    [
        ("train", {}, "sweep toy toy_tiny --load 'mase_output/a run'"),
        (
            "train",
            {"model_options": {"hidden": [64, 32]}, "data_options": {"num_rows": 100}, "plugins": ["a b.py"]},
            "sweep toy toy_tiny --data-option num_rows=100 --model-option 'hidden=[64, 32]' --plugin 'a b.py' "
            "--load 'mase_output/a run'",
        ),
        ("sweep", {}, "transform --config 'mase_output/a run/best.toml' --report"),
        ("search", {}, "transform --config 'mase_output/a run/search/best.toml' --report"),
        ("search", {"finetune": 1}, "report 'mase_output/a run' --open"),
        ("transform", {}, "report 'mase_output/a run' --open"),
        ("transform", {"transform": {"style": "module"}}, "view mase_output --open"),
        ("transform", {"report": True}, "train toy toy_tiny --load 'mase_output/a run' --max-epochs 2"),
        ("emit", {}, "simulate 'mase_output/a run'"),
        (
            "emit",
            {"strategy": "folded", "p_in": 8, "axi_stream": True, "clock_mhz": 250.0, "synthesis": "xc7"},
            "simulate 'mase_output/a run' --strategy folded --p-in 8 --clock-mhz 250.0 --axi-stream",
        ),
        ("simulate", {}, "report 'mase_output/a run' --open"),
        ("demo", {}, "report 'mase_output/a run' --open"),
        ("demo", {"open": True}, "explain 'mase_output/a run'"),
    ],
)
def test_next_command_can_be_parsed(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, action: str, options: dict[str, Any], expected: str
) -> None:
    monkeypatch.setenv("CHOP_LAUNCHER", "./ch")
    command = next_command(config(action, **options), run.path / "software")
    assert command == f"./ch {expected}"
    request = parse(shlex.split(command)[1:])
    settings = read_settings(request.action, request.given).config()
    for name in ("model_options", "data_options"):
        assert getattr(settings, name, {}) == options.get(name, {}) or action != "train"


def test_a_test_is_compared_with_the_other_runs(run: RunFolder) -> None:
    assert next_command(config("test"), run.path) == "ch view mase_output --open"


def test_a_grid_is_viewed(run: RunFolder) -> None:
    train = config("train")
    assert isinstance(train, TrainConfig)
    assert next_command(TrainGrid([train], ("seed",)), run.path) == "ch view mase_output --open"
