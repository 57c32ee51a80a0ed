"""`ch search` commands on a small grid, with trials of a given duration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from chop.folder_lock import LOCK

SLOW_FORMAT = '''
import os
import time
import tomllib
from dataclasses import dataclass

from torch import Tensor

from chop.formats import register_format
from chop.formats.integer import Integer


@register_format("slow_integer")
@dataclass(frozen=True)
class SlowInteger(Integer):
    """An integer format that is slow on purpose."""

    def quantize(self, x: Tensor) -> Tensor:
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0.05")))
        return super().quantize(x)
'''

CONFIG = """
model = "toy"
dataset = "toy_tiny"
accelerator = "cpu"
plugins = ["slow_format.py"]

[search.search_space.seed.default.config]
name = ["NA"]

[search.search_space.seed.seq_blocks_0.config]
name = ["integer"]
data_in_width = [4, 8]
data_in_frac_width = ["NA"]
weight_width = [2, 4, 8]
weight_frac_width = ["NA"]

[search.search_space.seed.seq_blocks_4.config]
name = ["slow_integer"]
data_in_width = [4, 6, 8]
data_in_frac_width = ["NA"]
weight_width = [2, 4, 8]
weight_frac_width = ["NA"]

[search.strategy.sw_runner.basic_evaluation]
num_samples = 200

[search.strategy.setup]
sampler = "SAMPLER"
n_trials = N_TRIALS

[search.strategy.metrics]
loss.direction = "minimize"
bitops.direction = "minimize"
"""
NUM_CONFIGS = 2 * 3 * 3 * 3
REAL = (sys.executable, "-m", "chop")
program: tuple[str, ...] = REAL
"""What `start` and `search` run; the fixture `copied_commands` replaces it."""


def write_config(folder: Path, sampler: str = "brute_force", n_trials: int = NUM_CONFIGS) -> Path:
    """Write a configuration with a grid of 54 trials; the uniform baselines of 4 and 8 bits are among them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "slow_format.py").write_text(SLOW_FORMAT)
    file = folder / "search.toml"
    file.write_text(CONFIG.replace("SAMPLER", sampler).replace("N_TRIALS", str(n_trials)))
    return file


def start(folder: Path, *options: str, seconds: float = 0.0, real: bool = False) -> subprocess.Popen[str]:
    """Start `ch search`, as a process of its own if `real`; a trial takes about `seconds`."""
    command = [*(REAL if real else program), "search", "--config", str(folder / "search.toml"), *options]
    command += ["--trust", str(folder / "slow_format.py")]
    if "--project-dir" not in options:
        command += ["--project-dir", str(folder / "out")]
    environment = {**os.environ, "SLOW_SECONDS": str(seconds), "OMP_NUM_THREADS": "1", "CHOP_SEARCH_HEARTBEAT": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for a command and return its stdout and stderr; check its exit code."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    return out + err


def search(folder: Path, *options: str, seconds: float = 0.0, code: int = 0) -> str:
    return finish(start(folder, *options, seconds=seconds), code)


def runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("out*/toy_classification_*"))


def only_run(folder: Path) -> Path:
    (run,) = runs(folder)
    return run


def log(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "search" / "log.json").read_text())
    return found


def trials(run: Path) -> list[dict[str, Any]]:
    """Return the trials in the log of a run, without the uniform baselines."""
    return [trial for trial in log(run)["trials"] if trial["baseline"] is None]


def front(run: Path) -> list[tuple[float, float]]:
    """Return loss and bit operations of the trials on the front."""
    rows = [trial["metrics"] for trial in trials(run) if trial["front"]]
    return sorted((row["loss"], row["bitops"]) for row in rows)


def check_complete(run: Path, num_trials: int) -> None:
    """Check that each trial was completed once, and that every file is complete."""
    found = trials(run)
    assert [trial["number"] for trial in found] == list(range(num_trials))
    assert {trial["state"] for trial in found} == {"complete"}
    assert len(pd.read_parquet(run / "search" / "trials.parquet")) == num_trials
    assert len(pd.read_csv(run / "search" / "pareto.csv")) == sum(trial["front"] for trial in found)
    tomllib.loads((run / "search" / "best.toml").read_text())
    summary = json.loads((run / "summary.json").read_text())
    assert summary["trials"] == {"complete": num_trials}
    if (run / "search" / "study.journal").exists():
        assert not [file.name for file in run.rglob(".*") if file.name != LOCK], "no temporary file is left"


def check_grid(run: Path) -> None:
    """Check that every configuration of the grid was tried once."""
    check_complete(run, NUM_CONFIGS)
    assert len({tuple(sorted(trial["params"].items())) for trial in trials(run)}) == NUM_CONFIGS


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


def num_done(run: Path) -> int:
    """Return the number of complete trials in the journal of a run."""
    path = run / "search" / "study.journal"
    return path.read_bytes().count(b'"state":1,') if path.exists() else 0


def num_started(run: Path) -> int:
    """Return the number of trials that workers have claimed; two may write that they claim the same one."""
    path = run / "search" / "study.journal"
    claims = re.findall(r'"trial_id":(\d+),"state":0,', path.read_text()) if path.exists() else []
    return len(set(claims))
