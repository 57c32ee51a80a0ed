"""The log of a training run: `metrics.jsonl`, and TensorBoard or Weights & Biases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from chop.config import TrainConfig
from chop.display.extras import need
from chop.files import naming, read_text, write_text
from chop.runs import RunFolder
from chop.training.tensorboard import EventFile


class Reporter(Protocol):
    """A destination of the metrics besides `metrics.jsonl`."""

    def add(self, values: Mapping[str, float], step: int) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class MetricsLog:
    """A file with one JSON object per line; the same numbers go to a reporter."""

    def __init__(self, path: Path, reporter: Reporter | None) -> None:
        self._path = path
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # closed by close()
        self._reporter = reporter

    def add(self, step: int, epoch: int, **values: float) -> None:
        with naming(self._path):
            self._file.write(json.dumps({"step": step, "epoch": epoch, **values}) + "\n")
        if self._reporter is not None:
            self._reporter.add(values, step)

    def flush(self) -> None:
        with naming(self._path):
            self._file.flush()
        if self._reporter is not None:
            self._reporter.flush()

    def close(self) -> None:
        with naming(self._path):
            self._file.close()
        if self._reporter is not None:
            self._reporter.close()


def open_log(config: TrainConfig, folder: RunFolder, first_step: int) -> MetricsLog:
    """Open the log of a run; the lines after `first_step` are removed, because a resumed run writes them again."""
    path = folder.metrics
    if path.exists():
        lines = read_text(path).splitlines()
        write_text(path, "".join(f"{line}\n" for line in lines if _step(line) <= first_step))
    reporter: Reporter | None = None
    if config.report_to == "tensorboard":
        reporter = EventFile(folder.tensorboard)
    elif config.report_to == "wandb":
        reporter = _Wandb(config, folder)
    return MetricsLog(path, reporter)


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):  # such as a line cut off when the process was killed
        return float("inf")


def check_reporter(config: TrainConfig) -> None:
    """Raise an error if the reporter that `config` names is not installed."""
    if config.report_to == "wandb":
        _wandb()


class _Wandb:
    def __init__(self, config: TrainConfig, folder: RunFolder) -> None:
        self._run = _wandb().init(project=config.project, name=folder.name, dir=str(folder.path))

    def add(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Do nothing: wandb sends in the background."""

    def close(self) -> None:
        self._run.finish()


def _wandb() -> Any:
    return need("wandb", "report_to 'wandb'")
