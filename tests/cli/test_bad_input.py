"""Bad input: every error is one line and exit code 2, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from chop import cli
from chop.dataset import get_dataset_info
from chop.models import get_model

ACTIONS = ("train", "test", "transform")
FEW_ROWS = ("--data-option", "num_rows=100")
ONE_PASS = {"transform": ["--set", "passes.count_flops={}"]}  # which it needs


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run `ch` with wrong input and return its error message."""
    before = sorted(Path.cwd().rglob("*"))
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ch: error: ")
    assert err.count("\n") == 1, err
    assert sorted(Path.cwd().rglob("*")) == before
    return err.removeprefix("ch: error: ").rstrip("\n")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jsc-tinny", "jsc"], "unknown model 'jsc-tinny'; did you mean 'jsc-tiny'?"),
        (["jsc-tiny", "jcs"], "unknown data set 'jcs'; did you mean 'jsc'?"),
        (["toy", "toy_tiny", "--load", "no.ckpt"], "checkpoint 'no.ckpt' does not exist"),
        (["toy", "toy_tiny", "--load", "nowhere"], "no run or file is called 'nowhere', and '"),
        (["toy", "no.csv"], "data file 'no.csv' does not exist"),
        (["toy", "toy_tiny", "--data-option", "rows=3"], "data set 'toy_tiny' has no option 'rows'; "),
        (
            ["toy", "toy_tiny", "--data-option", "num_rows=x"],
            "data set 'toy_tiny': 'num_rows' must be int, got 'x'",
        ),
        (["toy", "toy_tiny", "--seeed", "3"], "unknown option '--seeed'; did you mean '--seed'?"),
        (["toy", "toy_tiny", "--batch-size", "1.5"], "command line: 'batch_size' must be int, got '1.5' (str)"),
        (["toy", "toy_tiny", "--task", "ner"], "{action}: unknown task 'ner'; known: classification, cls, lm, "),
    ],
)
def test_error_on_the_command_line_is_reported(
    capsys: pytest.CaptureFixture[str], action: str, words: list[str], message: str
) -> None:
    assert error_of(capsys, action, *words).startswith(message.format(action=action))


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batchsize = 3\n", "unknown key 'batchsize'; did you mean 'batch_size'?"),
        ("batch_size = '3'\n", "'batch_size' must be int, got '3' (str)"),
        ("seed = 1\nbatch_size = = 3\n", "not valid TOML: Invalid value (at line 2, column 14)"),
    ],
)
def test_error_in_a_config_file_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], action: str, text: str, message: str
) -> None:
    (folder / "a.toml").write_text(text)
    assert error_of(capsys, action, "toy", "toy_tiny", "--config", "a.toml") == f"a.toml: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[passes.quantise]\n", "unknown pass 'quantise'; did you mean 'quantize'?"),
        (
            "[passes.quantize]\nby = 'typ'\n",
            "quantize_transform_pass: 'by' must be 'type' or 'name' or 'regex_name'",
        ),
        (
            "[passes.quantize]\nby = 'type'\n[passes.quantize.linear.config]\nname = 'integr'\n",
            "unknown format 'integr'; did you mean 'integer'?",
        ),
        (
            "[passes.quantize]\nby = 'type'\n[passes.quantize.liner.config]\nname = 'integer'\n",
            "quantize by type: 'liner' is not an op that can be quantised; did you mean 'linear'?",
        ),
    ],
)
def test_error_in_pass_arguments_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (folder / "a.toml").write_text(text)
    assert message in error_of(capsys, "transform", "toy", "toy_tiny", "--config", "a.toml", *FEW_ROWS)


@pytest.mark.parametrize("action", ACTIONS)
def test_corrupt_checkpoint_is_reported(folder: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    torch.save(get_model("toy", dataset_info=get_dataset_info("toy_tiny")).state_dict(), "a.ckpt")
    os.truncate("a.ckpt", (folder / "a.ckpt").stat().st_size // 2)
    assert error_of(capsys, action, "toy", "toy_tiny", "--load", "a.ckpt").startswith(
        "checkpoint 'a.ckpt' is corrupt"
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_checkpoint_of_another_model_is_reported(capsys: pytest.CaptureFixture[str], action: str) -> None:
    torch.save(get_model("jsc-tiny", dataset_info=get_dataset_info("toy_tiny")).state_dict(), "a.ckpt")
    message = error_of(capsys, action, "toy", "toy_tiny", "--load", "a.ckpt")
    assert message.startswith("checkpoint 'a.ckpt' does not fit this Toy; ")
    assert "seq_blocks." in message


@pytest.mark.parametrize("action", ACTIONS)
def test_missing_label_column_is_reported(folder: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    (folder / "a.csv").write_text("a,b,kind\n" + "".join(f"{i},{i * i},{i % 2}\n" for i in range(20)))
    message = error_of(capsys, action, "toy", "a.csv", "--data-option", "label=kin")
    assert "'kin'" in message
    assert "did you mean 'kind'?" in message


@pytest.mark.slow
@pytest.mark.parametrize("action", ACTIONS)
def test_project_folder_that_is_a_file_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    (folder / "out").write_text("")
    words = ["toy", "toy_tiny", "--project-dir", "out", "--no-warnings", *FEW_ROWS, *ONE_PASS.get(action, [])]
    assert "out" in error_of(capsys, action, *words)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, where nobody can create a folder")
@pytest.mark.parametrize("action", ACTIONS)
def test_project_folder_without_write_access_is_reported(capsys: pytest.CaptureFixture[str], action: str) -> None:
    words = [
        "toy",
        "toy_tiny",
        "--project-dir",
        "/proc/self/out",
        "--no-warnings",
        *FEW_ROWS,
        *ONE_PASS.get(action, []),
    ]
    assert error_of(capsys, action, *words).startswith("cannot write in /proc/self/out: ")
