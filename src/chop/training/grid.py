"""Several trainings in one command: all combinations of the values given, in one table and one picture."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import mean, stdev
from typing import Any

from tabulate import tabulate

from chop.config import TrainConfig
from chop.files import write_json, write_text
from chop.runs import RunFolder
from chop.runs.folder import run_prefix
from chop.training.train import train

COLUMNS = ("epoch", "batch_size", "learning_rate")  # always shown, as in lab 1
RESULTS = ("training loss", "validation loss", "validation accuracy", "test accuracy (best)")
"""The first three are those after the last epoch, as in lab 1; the test is of the best one."""


@dataclass(frozen=True)
class Row:
    """One setting of a grid: its options, and its results, one for each seed."""

    options: Mapping[str, Any]
    results: Mapping[str, Sequence[float]]
    folders: Sequence[str]

    def name(self, varied: Sequence[str]) -> str:
        return ", ".join(f"{self.options[name]:g}" for name in varied)

    def cells(self) -> list[str]:
        return [f"{value:g}" for value in self.options.values()] + [_spread(each) for each in self.results.values()]


def run_grid(configs: Sequence[TrainConfig], varied: Sequence[str]) -> RunFolder:
    """Train each configuration and return the folder with the table and the plot of all.

    `varied` are the options in which the configurations differ. Runs that differ in the seed only are one row,
    with the mean and the standard deviation of their results.
    """
    if configs[0].num_devices * configs[0].nodes > 1:
        raise ValueError("a grid of runs needs one process: leave out num_devices and nodes, or train one by one")
    folders = []
    for number, config in enumerate(configs, 1):
        setting = ", ".join(f"{name} {getattr(config, name):g}" for name in varied)
        sys.stderr.write(f"run {number} of {len(configs)}: {setting}\n")
        with contextlib.redirect_stdout(io.StringIO()):  # one table for all, instead of one for each
            folders.append(train(config))
    summaries = [folder.read_summary() for folder in folders]
    rows = _rows(configs, summaries, folders, varied)
    name = f"grid_{run_prefix(configs[0])}{date.today().isoformat()}"
    folder = RunFolder.create(configs[0].project_dir, name)
    _report(rows, varied, f"{configs[0].model}, data: {summaries[0]['data']['title']}", folder)
    return folder


def _rows(
    configs: Sequence[TrainConfig], summaries: Sequence[Any], folders: Sequence[RunFolder], varied: Sequence[str]
) -> list[Row]:
    others = [name for name in varied if name not in (*COLUMNS, "max_epochs", "seed")]
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
        }
        rows.append(Row(options, results, [str(folders[i].path) for i in members]))
    return rows


def _report(rows: Sequence[Row], varied: Sequence[str], title: str, folder: RunFolder) -> None:
    from chop.training.plots import draw_grid

    headers = [*rows[0].options, *RESULTS]
    cells = [row.cells() for row in rows]
    seeds = len(rows[0].folders)
    note = f"\nmean ± standard deviation of {seeds} seeds" if seeds > 1 else ""
    print(f"\n{title}{note}")
    print(tabulate(cells, headers=headers, disable_numparse=True, stralign="right"))
    write_text(folder.grid_table, "".join(",".join(line) + "\n" for line in (headers, *cells)))
    data = [{**row.options, **row.results, "runs": row.folders} for row in rows]
    write_json(folder.grid, {"title": title, "rows": data})
    shown = ["epoch" if name == "max_epochs" else name for name in varied if name != "seed"]
    points = [
        (row.name(shown) or f"{seeds} seeds", row.results["training loss"], row.results["validation loss"])
        for row in rows
    ]
    draw_grid(points, ", ".join(shown), title, folder.grid_plot)


def _spread(values: Sequence[float]) -> str:
    return f"{values[0]:.4f}" if len(values) == 1 else f"{mean(values):.4f} ± {stdev(values):.4f}"
