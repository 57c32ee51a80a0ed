"""What a project holds: one record a run, finished or not, whole or not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from chop.display.numbers import plain
from chop.reporting.view.reading import DamagedError, at, number_at, read_table, tables_at, text_at
from chop.reporting.view.served_files import find_file, find_folder

RUN_FILE, SUMMARY, GRID, METRICS = "run.toml", "summary.json", "grid.json", "metrics.jsonl"
MARKS = (RUN_FILE, SUMMARY, GRID, METRICS)
"""A folder with one of these files is a run, or what is left of one."""
LINE = 4096
"""Bytes at the end of a log that hold its last two lines."""


@dataclass(frozen=True)
class Record:
    """A run as its files tell it; what is missing from them is None or empty."""

    folder: Path
    began: datetime
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    grid: Mapping[str, Any]
    problems: tuple[str, ...]

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
    def has_report(self) -> bool:
        return find_file(self.folder, ("report.html",)) is not None

    @property
    def can_have_report(self) -> bool:
        return bool(self.config and self.summary)

    @property
    def note(self) -> str | None:
        """What a run is besides its numbers: how far it came, or how many runs or trials it holds."""
        if self.grid:
            return f"{sum(len(self.members(row)) for row in tables_at(self.grid, 'rows'))} runs"
        trials, front = number_at(self.summary, "trials", "complete"), number_at(self.summary, "front")
        if trials is not None and front is not None:
            return f"{plain(trials)} trials, {plain(front)} on the front"
        checkpoint = text_at(self.summary, "checkpoint")
        return None if checkpoint is None else f"from {_run_of(Path(checkpoint))}"

    @property
    def _grid_title(self) -> tuple[str | None, str | None]:
        model, _, data = (text_at(self.grid, "title") or "").partition(", data: ")
        return model or None, data.partition(" (")[0] or None

    @staticmethod
    def members(row: Mapping[str, Any]) -> list[str]:
        """The names of the runs in a row of a grid."""
        runs = at(row, "runs")
        return [Path(str(each)).name for each in runs] if isinstance(runs, list) else []


def list_records(root: Path) -> list[Record]:
    """Everything in a project that is a run or was to be one, newest first."""
    names = [folder.name for folder in root.iterdir()]
    found = [record for name in names if (record := find_record(root, name)) is not None]
    return sorted(found, key=lambda record: (record.began, record.name), reverse=True)


def find_run(root: Path, name: str) -> Path | None:
    """The folder of the run of that name; None where there is no such folder, or nothing of a run in it."""
    folder = find_folder(root, name)
    return folder if folder is not None and _marks(folder) else None


def _marks(folder: Path) -> list[Path]:
    return [path for mark in MARKS if (path := find_file(folder, (mark,))) is not None]


def find_record(root: Path, name: str) -> Record | None:
    """What the run of that name has left; None where there is no such run."""
    folder = find_run(root, name)
    if folder is None:
        return None
    marks = _marks(folder)
    try:
        began = datetime.fromtimestamp(min(path.stat().st_mtime for path in marks))
    except (OSError, ValueError, OverflowError):  # deleted just now, or from beyond the calendar
        return None
    problems: list[str] = []

    def read(*parts: str) -> Mapping[str, Any]:
        try:
            return read_table(folder, *parts)
        except DamagedError as error:
            problems.append(str(error))
            return {}

    summary, config, grid = read(SUMMARY), read(RUN_FILE), read(GRID)
    present = {path.name for path in marks}
    if not present & {GRID, SUMMARY}:
        problems.append(f"it has no {SUMMARY}: it was stopped, or still goes on{_progress(folder)}")
    if not present & {GRID, RUN_FILE}:
        problems.append(f"it has no {RUN_FILE}: its options are lost")
    return Record(folder, began, summary, config, grid, tuple(problems))


def _run_of(checkpoint: Path) -> str:
    """The name of the run that a checkpoint lies in; else its own."""
    parts = checkpoint.parts
    return parts[parts.index("software") - 1] if "software" in parts[1:] else checkpoint.name


def _progress(folder: Path) -> str:
    """Where a training is, by the last whole line of its log."""
    path = find_file(folder, (METRICS,))
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LINE))
            lines = file.read().splitlines()
        values = json.loads(lines[-1] if lines[-1].endswith(b"}") else lines[-2])
    except (OSError, ValueError, IndexError, RecursionError):
        return ""
    step, epoch = number_at(values, "step"), number_at(values, "epoch")
    return "" if step is None or epoch is None else f" (epoch {plain(epoch)}, step {plain(step)})"
