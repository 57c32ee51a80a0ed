"""Several processes on one machine give the results of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

CHECKPOINTS = Path("software/training_ckpts")


COMMAND = (sys.executable, "-m", "chop", "train", "toy", "toy_tiny", "--accelerator", "cpu", "--batch-size", "50")


def ch_train(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [*COMMAND, "--project-dir", str(folder), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_two_processes_give_the_weights_of_one(tmp_path: Path) -> None:
    """Batches of 50, the last of 20: each process takes half of each batch, and two batches make a step."""
    results = []
    for name, options in (("one", ()), ("two", ("--strategy", "ddp", "--num-devices", "2"))):
        common = ("--max-epochs", "3", "--accumulate-grad-batches", "2", "--lr-scheduler", "linear")
        done = ch_train(tmp_path / name, *common, *options)
        assert done.returncode == 0, done.stderr
        (folder,) = (tmp_path / name).iterdir()  # the second process creates none
        results.append((torch.load(folder / CHECKPOINTS / "last.ckpt", weights_only=True), done))
    (one, alone), (two, together) = results
    assert two["step"] == one["step"]
    for key, value in one["state_dict"].items():
        assert torch.allclose(value, two["state_dict"][key], rtol=0, atol=1e-5), key
    for first, second in zip(one["history"], two["history"], strict=True):
        assert first == pytest.approx(second, abs=1e-5)
    assert together.stdout.count("best epoch") == alone.stdout.count("best epoch") == 1
    assert together.stderr.count("epoch   1") == 1


@pytest.mark.slow
def test_ctrl_c_ends_the_command_with_130(tmp_path: Path) -> None:
    command = [*COMMAND, "--project-dir", str(tmp_path), "--max-epochs", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("INFO: data: ")
        assert process.stderr.readline().startswith("epoch   1 ")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    (folder,) = tmp_path.iterdir()
    assert f"To resume:\n  ch train --config {folder / 'run.toml'} --resume\nch: interrupted\n" in err
    done = ch_train(tmp_path, "--resume", "--max-epochs", "100000", "--max-steps", "1")
    assert done.returncode == 0, done.stderr  # nothing is left to train: it ends with the report
    assert "best epoch" in done.stdout
