"""Values, files and folders that nobody should give: one clear line, and nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chop import cli
from chop.cli.entry import MAX_MESSAGE, shorten_message
from chop.runs import RunFolder
from chop.training.metrics_log import MetricsLog
from quick import one_thread_and_no_drawing  # noqa: F401

QUICK = ("--max-steps", "1", "--accelerator", "cpu", "--report-to", "none")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run `ch` with wrong input and return its error message."""
    before = sorted(Path.cwd().rglob("*"))
    capsys.readouterr()
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    messages = [line for line in err.splitlines() if line.startswith("ch: error: ")]
    assert len(messages) == 1, err
    assert "Traceback" not in err
    assert sorted(Path.cwd().rglob("*")) == before
    return messages[0].removeprefix("ch: error: ")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--learning-rate", "inf"), "command line: 'learning_rate' must be a finite number, got inf (float)"),
        (("--weight-decay", "nan"), "command line: 'weight_decay' must be a finite number, got nan (float)"),
        (("--batch-size", str(10**21)), f"train: 'batch_size' must be at most {2**63 - 1}, got {10**21}"),
        (("--seed", str(2**64)), f"train: 'seed' must be at most {2**63 - 1}, got {2**64}"),
        (
            ("--data-option", f"num_rows={2**63}"),
            "data set 'toy_tiny' needs num_rows of at most 100,000,000",
        ),
        (("--data-option", "num_rows=" + "[" * 3000), "data set 'toy_tiny': 'num_rows' must be int, got '[["),
    ],
)
def test_numbers_without_meaning_are_refused(
    capsys: pytest.CaptureFixture[str], option: tuple[str, ...], message: str
) -> None:
    assert error_of(capsys, "train", "toy", "toy_tiny", *option).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"learning_rate = 1{'0' * 400}\n", "'learning_rate' must be a finite number, got 10000"),
        ("timeout = nan\n", "'timeout' must be a finite number, got nan (float)"),
        (f"x = {'[' * 500}{']' * 500}\n", "a.toml: "),
        (f"seed = {'[' * 500}{']' * 500}\n", "a.toml: "),
        (f"x = {'[' * 5000}{']' * 5000}\n", "not valid TOML: its values are nested too deeply"),
    ],
)
def test_values_of_a_file_are_checked(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (folder / "a.toml").write_text(text)
    assert message in error_of(capsys, "search", "toy", "toy_tiny", "--config", "a.toml")


@pytest.mark.parametrize("words", [("sys:x", "toy_tiny"), ("toy", "sys:x"), ("os:system", "toy_tiny")])
def test_references_to_anything_are_one_line(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert error_of(capsys, "test", *words)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["[[1, 2]]", "[{a = 1}]", f"[{2**62}, 8]", "[[[1]]]"])
def test_choices_that_are_not_numbers_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], choice: str
) -> None:
    table = "[search.search_space.setup]\nby = 'type'\n[search.search_space.seed.linear.config]\n"
    (folder / "a.toml").write_text(f"{table}name = ['integer']\nweight_width = {choice}\n")
    message = error_of(capsys, "search", "toy", "toy_tiny", "--config", "a.toml")
    assert "width" in message or message.startswith("a choice must be a number, a name or a list of them, got ")


def test_long_names_are_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "info", "formats", "x" * 5000)
    assert message.startswith(f"unknown format '{'x' * 40}")
    assert len(message) < MAX_MESSAGE
    path = "/folder" * 50
    assert shorten_message(f"cannot read {path}") == f"cannot read {path}"
    assert len(shorten_message("word " * 5000)) == MAX_MESSAGE + 3


@pytest.mark.slow
def test_a_pipe_is_not_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.toml", "rows.csv", "a.ckpt"):
        os.mkfifo(folder / name)
    for words in (("toy_tiny", "--config", "a.toml"), ("rows.csv",), ("toy_tiny", "--load", "a.ckpt")):
        assert "is a pipe or a device, not a file" in error_of(capsys, "test", "toy", *words)


def test_a_folder_that_was_deleted_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        assert cli.main(["info", "models"]) == 2
    finally:
        os.chdir(tmp_path)
    assert (
        capsys.readouterr().err == "ch: error: the current folder no longer exists; change to another one with cd\n"
    )


@pytest.fixture
def trained(folder: Path) -> RunFolder:
    assert cli.main(["train", "toy", "toy_tiny", *QUICK]) == 0
    return RunFolder(next((folder / "mase_output").iterdir()))


Change = Callable[[dict[str, Any]], object]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("identity"),
        lambda state: state.update(identity=[1]),
        lambda state: state.update(history=[{"epoch": 1}]),
        lambda state: state.update(history=[{**state["history"][0], "val_loss": "low"}]),
        lambda state: state.update(history=3),
        lambda state: state["state_dict"].popitem(),
        lambda state: state.update(state_dict={key: value[:1] for key, value in state["state_dict"].items()}),
        lambda state: state.update(optimizer={}),
        lambda state: state["optimizer"]["state"][0].update(step=torch.zeros(2, 3)),
        lambda state: state["optimizer"]["param_groups"][0].update(amsgrad=7),
        lambda state: state["optimizer"]["param_groups"][0].update(betas=(0.9, "x")),
        lambda state: state.update(epoch="x"),
        lambda state: state.update(step=-1),
        lambda state: state.update(random={}),
        lambda state: state.pop("seconds"),
    ],
)
def test_a_malformed_checkpoint_is_not_resumed(
    trained: RunFolder, capsys: pytest.CaptureFixture[str], change: Change
) -> None:
    state = torch.load(trained.last_checkpoint, weights_only=True)
    change(state)
    trained.last_checkpoint.unlink()
    torch.save(state, trained.last_checkpoint)
    message = error_of(capsys, "train", "--config", str(trained.config), "--resume", "--max-steps", "9")
    assert message.startswith(f"cannot resume from {trained.last_checkpoint}: it is corrupt (")


def test_a_training_that_fails_in_its_first_epoch_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "from torch import nn\nclass Net(nn.Linear):\n    def __init__(self):\n        super().__init__(2, 2)\n"
    code += "    def forward(self, x):\n        assert not self.training, 'no'\n        return super().forward(x)\n"
    (folder / "net.py").write_text(code)
    (folder / "mase_output").mkdir()
    assert "no" in error_of(capsys, "train", "net.py:Net", "toy_tiny", *QUICK)


def test_class_names_are_short(folder: Path) -> None:
    rows = "".join(f"{i},{'a' * 100_000 if i % 2 else 'b'}\n" for i in range(20))
    (folder / "rows.csv").write_text(f"p,label\n{rows}")
    from chop.dataset import get_dataset_info

    assert [len(name) for name in get_dataset_info("rows.csv").class_names] == [60, 1]


def test_a_full_disk_is_reported_with_the_path() -> None:
    log = MetricsLog(Path("/dev/full"), None)
    log.add(1, 1, loss=0.5)
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        log.flush()
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        log.close()


def test_arrays_of_other_shapes_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(folder / "rows.npz", x=np.zeros((20, 2)), y=np.zeros((20, 2)))
    assert "must have the shapes [rows, ...] and [rows]" in error_of(capsys, "test", "toy", "rows.npz")


def test_a_value_of_two_dashes_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "test", "toy", "toy_tiny", "--data-option=--")
    assert message == "command line: a data option must have the form name=value, got '--'"


@pytest.mark.slow
def test_double_precision_can_be_tested() -> None:
    words = ("--trainer-precision", "64-true", "--accelerator", "cpu")
    assert cli.main(["test", "jsc-tiny", "toy_tiny", *words]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["brute_force", "random"])
def test_a_search_without_choices_has_one_trial(folder: Path, sampler: str) -> None:
    space = "[search.search_space.setup]\nby = 'type'\n[search.search_space.seed.linear.config]\nname = 'integer'\n"
    (folder / "a.toml").write_text(f"{space}[search.strategy.setup]\nsampler = '{sampler}'\nn_trials = 2\n")
    assert cli.main(["search", "toy", "toy_tiny", "--config", "a.toml", "--accelerator", "cpu"]) == 0
