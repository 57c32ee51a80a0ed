"""A grid of training runs: all combinations of some options, compared in one table and one plot."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import mean, stdev
from typing import Any

from chop.config import TrainConfig
from chop.display.tables import write_table
from chop.files import write_json
from chop.runs import RunFolder
from chop.runs.folder import run_prefix
from chop.training.parallel import map_in_processes
from chop.training.terminal import print_grid
from chop.training.train import train

OPTION_COLUMNS = ("epoch", "batch_size", "learning_rate")  # always shown: the table that the course asks for
RESULT_COLUMNS = ("training loss", "validation loss", "validation accuracy", "test accuracy (best)", "seconds")
"""The first three are measured after the last epoch, which shows overfitting; the fourth one at the best epoch."""


@dataclass(frozen=True)
class GridRow:
    """One combination of options, and its results, one per seed."""

    options: Mapping[str, Any]
    results: Mapping[str, Sequence[float]]
    folders: Sequence[str]

    def label(self, varied: Sequence[str]) -> str:
        """Return the values of the options `varied`."""
        return ", ".join(f"{self.options[name]:g}" for name in varied)

    def cells(self) -> list[str]:
        """Return the row of the table."""
        cells = [f"{value:g}" for value in self.options.values()]
        for name, values in self.results.items():
            digits = 1 if name == "seconds" else 4
            spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{mean(values):.{digits}f}{spread}")
        return cells


def run_grid(configs: Sequence[TrainConfig], varied: Sequence[str]) -> RunFolder:
    """Train each configuration and return the folder with the common table and plot.

    `varied` are the options in which the configurations differ. Runs that differ only in the seed share one row,
    with the mean and the standard deviation of their results.
    """
    if configs[0].num_devices * configs[0].nodes > 1:
        raise ValueError(
            "a grid runs in one process: remove num_devices and nodes, or train one combination at a time"
        )
    workers = min(configs[0].workers or 1, len(configs))
    several = workers > 1
    runs = map_in_processes(_train_in_process, configs[0], configs, workers) if several else map(_train, configs)
    folders = []
    for number, config in enumerate(configs, 1):
        options = ", ".join(f"{name} {getattr(config, name):g}" for name in varied)
        sys.stderr.write(f"run {number} of {len(configs)}: {options}\n")
        folders.append(next(runs))
    summaries = [folder.read_summary() for folder in folders]
    rows = _rows(configs, summaries, folders, varied)
    name = configs[0].name or f"{run_prefix(configs[0])}{date.today().isoformat()}"
    folder = RunFolder.create(configs[0].project_dir, f"grid_{name}")
    _write_results(rows, varied, f"{configs[0].model}, data: {summaries[0]['data']['title']}", folder)
    return folder


def _train_in_process(config: TrainConfig) -> Callable[[TrainConfig], RunFolder]:
    """Return the training for a process of its own, whose progress would be mixed with that of others."""

    def train_silently(config: TrainConfig) -> RunFolder:
        with contextlib.redirect_stderr(io.StringIO()):
            return _train(config)

    return train_silently


def _train(config: TrainConfig) -> RunFolder:
    with contextlib.redirect_stdout(io.StringIO()):  # there is one table for all runs
        return train(config)


def _rows(
    configs: Sequence[TrainConfig], summaries: Sequence[Any], folders: Sequence[RunFolder], varied: Sequence[str]
) -> list[GridRow]:
    others = [name for name in varied if name not in (*OPTION_COLUMNS, "max_epochs", "seed")]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, config in enumerate(configs):
        groups.setdefault(tuple(getattr(config, name) for name in varied if name != "seed"), []).append(i)
    rows = []
    for members in groups.values():
        config, found = configs[members[0]], [summaries[i] for i in members]
        options = {"epoch": found[0]["epochs"], "batch_size": config.batch_size}
        options |= {"learning_rate": config.learning_rate, **{name: getattr(config, name) for name in others}}
        results = {
            "training loss": [each["last"]["train_loss"] for each in found],
            "validation loss": [each["last"]["val_loss"] for each in found],
            "validation accuracy": [each["last"]["val_accuracy"] for each in found],
            "test accuracy (best)": [each["test"]["accuracy"] for each in found],
            "seconds": [each["seconds"] for each in found],
        }
        rows.append(GridRow(options, results, [str(folders[i].path) for i in members]))
    return rows


def _write_results(rows: Sequence[GridRow], varied: Sequence[str], title: str, folder: RunFolder) -> None:
    from chop.training.plots import plot_grid  # here, because importing Matplotlib takes long

    headers = [*rows[0].options, *RESULT_COLUMNS]
    cells = [row.cells() for row in rows]
    seeds = len(rows[0].folders)
    note = f"\nmean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    print_grid(f"{title}{note}", headers, cells)
    write_table(folder.grid_table, headers, cells)
    data = [{**row.options, **row.results, "runs": row.folders} for row in rows]
    write_json(folder.grid, {"title": title, "rows": data})
    shown = ["epoch" if name == "max_epochs" else name for name in varied if name != "seed"]
    points = [
        (row.label(shown) or f"{seeds} seeds", row.results["training loss"], row.results["validation loss"])
        for row in rows
    ]
    plot_grid(points, ", ".join(shown), title, folder.grid_plot)
