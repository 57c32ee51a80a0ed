"""A resumed training gives the weights of one that was never stopped, bit for bit."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from chop.actions.train import train
from chop.config import TrainConfig
from chop.dataset.base import Splits
from chop.runs import RunFolder
from chop.training import checkpoint
from chop.training.checkpoint import read_checkpoint
from chop.training.loop import TrainingLoop
from command_server import CommandServer

pytestmark = pytest.mark.slow


class Crash(Exception):
    """An unexpected error."""


CHECKPOINTS = Path("software/training_ckpts")


def weights(folder: Path, name: str) -> dict[str, Tensor]:
    state: dict[str, Tensor] = read_checkpoint(folder / CHECKPOINTS / name)["state_dict"]
    return state


def check_same(first: Path, second: Path) -> None:
    for name in ("last.ckpt", "best.ckpt"):
        one, other = weights(first, name), weights(second, name)
        assert list(one) == list(other)
        assert all(one[key].equal(other[key]) for key in one)
    metrics = [(folder / "metrics.jsonl").read_text() for folder in (first, second)]
    assert metrics[0] == metrics[1]


@pytest.fixture
def config(train_config: TrainConfig, dropout_net: str) -> TrainConfig:
    return replace(train_config, model=dropout_net, max_epochs=4, lr_scheduler="cosine", log_every_n_steps=5)


@pytest.fixture
def complete(config: TrainConfig, tmp_path: Path) -> Path:
    """The same run, never stopped."""
    return train(replace(config, project_dir=tmp_path / "complete"))


def only_run(config: TrainConfig) -> Path:
    (folder,) = config.project_dir.iterdir()
    return folder


def test_a_checkpoint_with_an_impossible_random_state_is_reported(train_config: TrainConfig) -> None:
    path = train(train_config) / CHECKPOINTS / "last.ckpt"
    checkpoint = read_checkpoint(path)
    version, numbers, gauss = checkpoint["random"]["python"]
    torch.save(
        {**checkpoint, "random": {**checkpoint["random"], "python": (version, (-1, *numbers[1:]), gauss)}}, path
    )
    with pytest.raises(ValueError, match=r"cannot resume from .*: it is corrupt \(OverflowError: "):
        train(replace(train_config, resume=True))


def test_a_run_that_another_process_trains_is_not_resumed(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would write `metrics.jsonl` and the checkpoints."""
    update, tried = TrainingLoop.update, list[bool]()

    def resume_too(self: TrainingLoop, group: Any, num_rows: int) -> Tensor:
        if self.step == 15 and not tried:
            tried.append(True)
            with pytest.raises(ValueError, match=rf"^process {os.getpid()} on .* is writing to {only_run(config)}"):
                train(replace(config, resume=True))
        return update(self, group, num_rows)

    monkeypatch.setattr(TrainingLoop, "update", resume_too)
    steps = [line["step"] for line in RunFolder(train(config)).read_metrics() if "step_loss" in line]
    assert tried
    assert steps == list(range(5, 49, 5))


@pytest.mark.parametrize("step", [3, 12, 31])
def test_a_crashed_run_is_resumed(
    config: TrainConfig, complete: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    update = TrainingLoop.update

    def crash(self: TrainingLoop, group: Any, num_rows: int) -> Tensor:
        if self.step == step:
            raise Crash
        return update(self, group, num_rows)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "update", crash)
        with pytest.raises(Crash):
            train(config)
    assert train(replace(config, resume=True)) == only_run(config)
    check_same(only_run(config), complete)


@pytest.mark.parametrize("write", [1, 2, 4])
def test_a_run_is_resumed_after_a_full_disk(
    config: TrainConfig, complete: Path, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    writes = iter(range(100))

    def fsync(number: int) -> None:
        if next(writes) == write:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match=r"cannot save .*last.ckpt: No space left on device"):
            train(config)
    for file in (only_run(config) / CHECKPOINTS).iterdir():
        read_checkpoint(file)
    train(replace(config, resume=True))
    check_same(only_run(config), complete)


def test_a_run_killed_between_last_and_best_is_resumed(
    config: TrainConfig, complete: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr("chop.training.trainer.keep_as_best", crash)
        with pytest.raises(Crash):
            train(config)
    assert not (only_run(config) / CHECKPOINTS / "best.ckpt").exists()
    train(replace(config, resume=True))
    check_same(only_run(config), complete)


def test_more_epochs_can_be_added(config: TrainConfig, complete: Path) -> None:
    config = replace(config, lr_scheduler="none")
    train(replace(config, max_epochs=2))
    train(replace(config, resume=True))
    expected = train(replace(config, project_dir=config.project_dir.with_name("other")))
    check_same(only_run(config), expected)


def test_resuming_a_finished_run_only_prints_its_report(config: TrainConfig, complete: Path) -> None:
    resumed = replace(config, project_dir=complete.parent, resume=True)
    before = weights(complete, "last.ckpt")
    assert train(resumed) == complete
    assert all(before[key].equal(value) for key, value in weights(complete, "last.ckpt").items())


def test_the_configuration_file_selects_the_run(config: TrainConfig) -> None:
    first = train(replace(config, max_epochs=1))
    train(replace(config, max_epochs=1))
    assert train(replace(config, max_epochs=2, resume=True, config=first / "run.toml")) == first


def test_without_a_configuration_file_the_latest_run_is_resumed(config: TrainConfig) -> None:
    first, second = (train(replace(config, max_epochs=1)) for _ in range(2))
    now = os.stat(first / CHECKPOINTS / "last.ckpt").st_mtime
    os.utime(second / CHECKPOINTS / "last.ckpt", (now + 10, now + 10))
    assert train(replace(config, max_epochs=2, resume=True)) == second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"batch_size": 32},
            r"its batch_size is 64, not 32; to resume it with its own options: ch train --config .* --resume",
        ),
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"data_options": {"num_rows": 500}}, "its data_options"),
    ],
)
def test_a_run_with_other_options_is_not_resumed(config: TrainConfig, change: dict[str, Any], message: str) -> None:
    train(replace(config, max_epochs=1))
    with pytest.raises(ValueError, match=message):
        train(replace(config, resume=True, **change))


def test_other_data_are_not_resumed(config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    train(replace(config, max_epochs=1))
    monkeypatch.setattr(Splits, "sha256", "0" * 64)
    with pytest.raises(ValueError, match="it was trained on different data than 'toy_tiny'"):
        train(replace(config, resume=True))


def test_a_checkpoint_from_before_an_option_existed_is_resumed(config: TrainConfig) -> None:
    path = train(replace(config, max_epochs=2)) / CHECKPOINTS / "last.ckpt"
    content = read_checkpoint(path)
    del content["identity"]["accumulate_grad_batches"]
    torch.save(content, path)
    train(replace(config, max_epochs=3, resume=True))
    assert read_checkpoint(path)["epoch"] == 3


def test_a_checkpoint_with_the_former_name_of_the_score_is_resumed(config: TrainConfig) -> None:
    path = train(replace(config, max_epochs=1)) / CHECKPOINTS / "last.ckpt"
    content = read_checkpoint(path)
    content["meter"] = content.pop("score")
    torch.save(content, path)
    train(replace(config, resume=True))
    assert read_checkpoint(path)["epoch"] == config.max_epochs


def test_a_checkpoint_of_another_tool_is_not_resumed(config: TrainConfig) -> None:
    folder = train(replace(config, max_epochs=1))
    torch.save({"state_dict": {}}, folder / CHECKPOINTS / "last.ckpt")
    with pytest.raises(ValueError, match=r"last.ckpt cannot be resumed from: it was not written by ch train"):
        train(replace(config, resume=True))


KILLED = """
import os, signal, sys
from chop.cli import main
from chop.runs import Experiment, RunFolder
from chop.training import checkpoint

replace, calls = os.replace, 0
def killing(source, target):
    global calls
    calls += str(target).endswith("{name}")
    if calls == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
checkpoint.os.replace = killing
sys.exit(main({arguments!r}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "call"), [("last.ckpt", 3), ("best.ckpt", 2)])
def test_a_run_killed_during_a_save_is_resumed(
    config: TrainConfig, complete: Path, tmp_path: Path, command_server: CommandServer, name: str, call: int
) -> None:
    arguments = ["train", config.model, "toy_tiny", "--max-epochs", "4", "--batch-size", "64"]
    arguments += ["--learning-rate", "0.01", "--lr-scheduler", "cosine", "--log-every-n-steps", "5"]
    arguments += ["--accelerator", "cpu", "--project-dir", str(config.project_dir)]
    done = command_server.run_python(KILLED.format(name=name, call=call, arguments=arguments), tmp_path)
    assert done.returncode == 256 - signal.SIGKILL, done.stderr
    folder = only_run(config)
    for file in (folder / CHECKPOINTS).glob("*.ckpt"):
        read_checkpoint(file)
    assert checkpoint.read_checkpoint(folder / CHECKPOINTS / "last.ckpt")["epoch"] in (1, 2, 3)
    again = ["train", "--config", str(folder / "run.toml"), "--resume"]
    command = f"from chop.cli import main; raise SystemExit(main({again!r}))"
    done = command_server.run_python(command, tmp_path)
    assert done.returncode == 0, done.stderr
    check_same(folder, complete)


def test_a_run_killed_before_its_first_checkpoint_begins_anew(
    config: TrainConfig, complete: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Killed(BaseException):
        """After an Exception, the folder of a run without a checkpoint would be removed."""

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_bytes", kill)
        with pytest.raises(Killed):
            train(config)
    stopped = only_run(config)
    run = train(replace(config, resume=True, config=stopped / "run.toml"))
    assert f"nothing to resume in {config.project_dir}: starting a new training" in caplog.text
    check_same(run, complete)


def test_resuming_removes_the_temporary_files_of_a_killed_run(config: TrainConfig) -> None:
    run = train(config)
    temporary = [run / ".123.summary.json", run / CHECKPOINTS / ".123.last.ckpt"]
    for path in (*temporary, run / ".notes"):
        path.write_text("x")
    train(replace(config, resume=True))
    assert not any(path.exists() for path in temporary)
    assert (run / ".notes").exists(), "a file of the user"
