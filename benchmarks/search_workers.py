"""Speed of two workers compared with one, with trials of 50 ms that leave the processor idle."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend

TRIAL_SECONDS = 0.05
NUM_TRIALS = 200
WARM_UP = NUM_TRIALS // 10
"""Trials that are not measured, because the workers do not start at the same time."""

PLUGIN = f'''
import time
from dataclasses import dataclass

from torch import Tensor

from chop.formats import register_format
from chop.formats.integer import Integer


@register_format("slow_integer")
@dataclass(frozen=True)
class SlowInteger(Integer):
    """A slow integer format: as the format of the last layer, it sets the duration of a trial."""

    def quantize(self, x: Tensor) -> Tensor:
        time.sleep({TRIAL_SECONDS})
        return super().quantize(x)
'''

LAYER = """
[search.search_space.seed.{name}.config]
name = ["{format}"]
data_in_width = [4, 5, 6, 7, 8]
data_in_frac_width = ["NA"]
weight_width = [2, 3, 4, 5, 6, 7, 8]
weight_frac_width = ["NA"]
"""

SETUP = f"""
model = "toy"
dataset = "toy_tiny"
accelerator = "cpu"
plugins = ["slow_format.py"]
[search.strategy.setup]
sampler = "random"
n_trials = {NUM_TRIALS}
"""


def workers_speedup(num_workers: int = 2) -> tuple[float, float]:
    """Return the trials per second of one worker and of `num_workers`, with a journal file and without start-up."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "slow_format.py").write_text(PLUGIN)
        layers = LAYER.format(name="seq_blocks_0", format="integer") + LAYER.format(
            name="seq_blocks_4", format="slow_integer"
        )
        (path / "search.toml").write_text(SETUP + layers)
        return _rate(path, 1), _rate(path, num_workers)


def _rate(folder: Path, num_workers: int) -> float:
    out = folder / f"out{num_workers}"
    command = [sys.executable, "-m", "chop", "search", "--config", "search.toml", "--project-dir", str(out)]
    environment = {**os.environ, "CHOP_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, "--workers", str(num_workers)], cwd=folder, env=environment, check=True, capture_output=True
    )
    (journal,) = out.glob("*/search/study.journal")
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
    (name,) = optuna.get_all_study_names(storage)
    study = optuna.load_study(study_name=name, storage=storage)
    ends = sorted(trial.datetime_complete for trial in study.trials if trial.datetime_complete is not None)
    return (len(ends) - 1 - WARM_UP) / (ends[-1] - ends[WARM_UP]).total_seconds()
