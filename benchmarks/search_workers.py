"""Speed and start-up of two workers compared with one, with trials of 10 ms that leave the processor idle."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import optuna
from optuna.storages.journal import JournalFileBackend

TRIAL_SECONDS = 0.01
NUM_TRIALS = 400
NUM_CLASSES = 2
"""Rows of the last layer's weights."""
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

    is_repeatable = False  # so that no trial uses the rounded input of another

    def quantize(self, x: Tensor) -> Tensor:
        if len(x) > {NUM_CLASSES}:  # not the weights, which each worker rounds once per format
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


class Workers(NamedTuple):
    """A search by some workers, with a journal file."""

    rate: float
    """Trials per second, without start-up."""
    overhead: float
    """Seconds of the command beside its trials."""


def measure_workers() -> tuple[Workers, Workers]:
    """Return a search by one worker and one by two."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "slow_format.py").write_text(PLUGIN)
        layers = LAYER.format(name="seq_blocks_0", format="integer") + LAYER.format(
            name="seq_blocks_4", format="slow_integer"
        )
        (path / "search.toml").write_text(SETUP + layers)
        return _measure(path, 1), _measure(path, 2)


def _measure(folder: Path, num_workers: int) -> Workers:
    out = folder / f"out{num_workers}"
    command = [sys.executable, "-m", "chop", "search", "--config", "search.toml", "--project-dir", str(out)]
    command += ["--trust", "slow_format.py", "--workers", str(num_workers)]
    environment = {**os.environ, "CHOP_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    (journal,) = out.glob("*/search/study.journal")
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
    (name,) = optuna.get_all_study_names(storage)
    study = optuna.load_study(study_name=name, storage=storage)
    ends = sorted(trial.datetime_complete for trial in study.trials if trial.datetime_complete is not None)
    rate = (len(ends) - 1 - WARM_UP) / (ends[-1] - ends[WARM_UP]).total_seconds()
    return Workers(rate, seconds - NUM_TRIALS / rate)
