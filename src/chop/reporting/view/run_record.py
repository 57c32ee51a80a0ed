"""What the files of a run say about it, including whether it is finished, stopped, or has corrupt files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from chop.display.numbers import counted, exact
from chop.files import MAX_RECORD_BYTES, CorruptFileError, open_regular, parse_json
from chop.reporting.view.nested_tables import number_at, tables_at, text_at, value_at
from chop.reporting.view.served_files import find_run_file, find_served_run, is_allowed_name, read_table
from chop.runs import RunFolder, list_runs

MAX_RECORDS_KEPT = 4096
"""Runs whose files are not read again until they change."""
SYNTHETIC = ("synthetic", "generated")
"""Versions of data sets whose rows are not real."""
LOG_TAIL = 4096
"""Bytes at the end of a log that contain its last two lines."""


@dataclass(frozen=True, eq=False)  # the record of an unchanged run stays the same object
class RunRecord:
    """A run as its files describe it; what they do not say is None or empty."""

    folder: RunFolder
    started: datetime
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    grid: Mapping[str, Any]
    errors: tuple[str, ...]
    """What is missing or corrupt, as sentences for the page."""
    has_report: bool
    has_file_time: bool
    """Whether `started` is the time of a file, which copying may change."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def action(self) -> str | None:
        return "grid" if self.grid else text_at(self.summary, "action")

    @property
    def model(self) -> str | None:
        return text_at(self.summary, "model") or text_at(self.config, "model") or self._grid_title[0]

    @property
    def data(self) -> str | None:
        return text_at(self.summary, "dataset") or text_at(self.config, "dataset") or self._grid_title[1]

    @property
    def data_title(self) -> str | None:
        return text_at(self.summary, "data", "title")

    @property
    def test_rows(self) -> object:
        """What identifies the rows of the test split: equal for runs that were measured on the same rows."""
        data = value_at(self.summary, "data")
        known = data if isinstance(data, Mapping) else {}
        name = known.get("sha256") or self.data_title or self.data
        return name, known.get("split"), number_at(known, "rows", "test"), self.config.get("max_samples")

    @property
    def has_synthetic_data(self) -> bool:
        """Whether the rows were generated, so that results are not comparable with published ones."""
        provenance = (text_at(self.grid, "title") or "").partition(", data: ")[2].partition(" (")[2]
        return provenance.startswith(SYNTHETIC) or (text_at(self.summary, "data", "version") or "") in SYNTHETIC

    @property
    def evaluated_on(self) -> str | None:
        """What the accuracy of a search was measured on, such as `validation rows`; None: the test split."""
        loader = text_at(self.summary, "evaluated_on")
        split = {"val_dataloader": "validation", "train_dataloader": "training"}.get(loader or "")
        return None if split is None else f"{split} rows"

    @property
    def can_have_report(self) -> bool:
        return bool(self.grid or (self.config and self.summary))

    @property
    def note(self) -> str | None:
        """One phrase about the run: how many runs or trials it has, or which weights it started from."""
        if self.grid:
            return counted(sum(len(run_names(row)) for row in tables_at(self.grid, "rows")), "run")
        trials, front = number_at(self.summary, "trials", "complete"), number_at(self.summary, "front")
        if trials is not None and front is not None:
            return f"{counted(round(trials), 'trial')}, {exact(front)} Pareto-optimal"
        checkpoint = text_at(self.summary, "checkpoint") or text_at(self.config, "load_name")
        quantized = ", quantised" if self.summary.get("quantized_start") else ""
        origin = None if checkpoint is None else f"from {_checkpoint_name(Path(checkpoint))}{quantized}"
        best = text_at(self.summary, "best")  # of a sweep
        return ", ".join(part for part in (origin, None if best is None else f"best: {best}") if part) or None

    @property
    def _grid_title(self) -> tuple[str | None, str | None]:
        """The model and the data in the title of a grid, such as `jsc-tiny, data: jsc (generated)`."""
        model, _, data = (text_at(self.grid, "title") or "").partition(", data: ")
        return model or None, data.partition(" (")[0] or None


def run_names(row: Mapping[str, Any]) -> list[str]:
    """Return the names of the runs in a row of a grid."""
    runs = value_at(row, "runs")
    return [Path(str(each)).name for each in runs] if isinstance(runs, list) else []


def list_records(root: Path) -> list[RunRecord]:
    """Return all runs of a project, newest first, including those that were stopped."""
    found = (find_record(root, folder.name) for folder in list_runs(root))
    return [record for record in found if record is not None]


def find_record(root: Path, name: str) -> RunRecord | None:
    """Return the run of that name; None if there is none. Its files are read again if one of them has changed."""
    if not is_allowed_name(name):
        return None
    folder = RunFolder(root / name)
    files = (folder.path, folder.config, folder.summary, folder.grid, folder.metrics, folder.report)
    return _read_record(root, name, tuple(map(_version, files)))


def _version(path: Path) -> tuple[int, ...]:
    """Return inode, modification time and size of a file or link; for a link also of the file it leads to."""
    try:
        found = os.lstat(path)
        states = [found, os.stat(path)] if stat.S_ISLNK(found.st_mode) else [found]
    except (OSError, ValueError):
        return ()
    return tuple(number for each in states for number in (each.st_ino, each.st_mtime_ns, each.st_size))


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _read_record(root: Path, name: str, versions: object) -> RunRecord | None:
    folder = find_served_run(root, name)
    started = None if folder is None else _start_time(folder)
    if folder is None or started is None:
        return None
    errors: list[str] = []

    def read(path: Path) -> Mapping[str, Any]:
        try:
            return read_table(folder, path, MAX_RECORD_BYTES)
        except CorruptFileError as error:
            errors.append(str(error))
            return {}

    summary, config, grid = read(folder.summary), read(folder.config), read(folder.grid)
    if not _exists(folder, folder.grid):
        if not _exists(folder, folder.summary):
            errors.append(f"no {folder.summary.name}: the run was stopped, or is still running{_progress(folder)}")
        if not _exists(folder, folder.config):
            errors.append(f"no {folder.config.name}: the options of the run are unknown")
    has_report, has_file_time = _exists(folder, folder.report), folder.stored_start is None
    return RunRecord(folder, started, summary, config, grid, tuple(errors), has_report, has_file_time)


def _start_time(folder: RunFolder) -> datetime | None:
    """Return when a run was started or resumed; None if it has just been deleted."""
    started = folder.started_at
    try:
        return None if started is None else datetime.fromtimestamp(started)
    except (OSError, ValueError, OverflowError):  # a time outside the calendar
        return None


def _exists(folder: RunFolder, path: Path) -> bool:
    return find_run_file(folder, path) is not None


def _checkpoint_name(checkpoint: Path) -> str:
    """Return the name of the run that a checkpoint belongs to; else its file name."""
    for folder in map(RunFolder, checkpoint.parents):
        if checkpoint.is_relative_to(folder.checkpoints) or checkpoint.is_relative_to(folder.transform):
            return folder.name
    return checkpoint.name


def _progress(folder: RunFolder) -> str:
    """Return how far a training run is, from the last complete line of its log."""
    path = find_run_file(folder, folder.metrics)
    if path is None:
        return ""
    try:
        with open_regular(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
            lines = file.read().splitlines()
        values = parse_json(lines[-1] if lines[-1].endswith(b"}") else lines[-2], path.name)
    except (OSError, CorruptFileError, IndexError):
        return ""
    step, epoch = number_at(values, "step"), number_at(values, "epoch")
    return "" if step is None or epoch is None else f" (epoch {exact(epoch)}, step {exact(step)})"
