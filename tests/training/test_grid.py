"""Grids of trainings: one table, as in lab 1, and one plot."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import pytest

from chop.config import TrainConfig
from chop.runs import RunFolder
from chop.training.grid import run_grid

pytestmark = pytest.mark.slow


def test_each_batch_size_has_a_row(train_config: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    configs = [replace(train_config, batch_size=size, max_epochs=1) for size in (64, 128)]
    folder = run_grid(configs, ("batch_size",)).path
    assert folder.name.startswith("grid_toy_classification_toy_tiny_")
    out, err = capsys.readouterr()
    table = [line.split() for line in out.splitlines()]
    assert out.startswith("\ntoy, data: toy_tiny (synthetic)\n")
    assert out.count("test accuracy (best)") == 1  # the tables of the single runs are not printed
    header = "epoch batch_size learning_rate training loss validation loss validation accuracy test accuracy (best)"
    assert table[2] == [*header.split(), "seconds"]
    assert [row[:3] for row in table[4:]] == [["1", "64", "0.01"], ["1", "128", "0.01"]]
    assert "run 2 of 2: batch_size 128" in err
    assert (folder / "grid.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_has_the_results_of_the_runs(train_config: TrainConfig) -> None:
    configs = [replace(train_config, learning_rate=rate, max_epochs=2) for rate in (0.1, 0.001)]
    folder = run_grid(configs, ("learning_rate",)).path
    rows = json.loads((folder / "grid.json").read_text())["rows"]
    assert [row["learning_rate"] for row in rows] == [0.1, 0.001]
    for row in rows:
        (run,) = row["runs"]
        last = json.loads((Path(run) / "summary.json").read_text())["last"]
        assert row["training loss"] == [last["train_loss"]]
        assert row["validation loss"] == [last["val_loss"]]
        assert row["epoch"] == last["epoch"] == 2


def test_seeds_share_a_row_with_mean_and_deviation(
    train_config: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = [
        replace(train_config, seed=seed, max_epochs=1, batch_size=size) for size in (64, 128) for seed in (0, 1)
    ]
    folder = run_grid(configs, ("batch_size", "seed")).path
    assert "mean ± standard deviation of 2 seeds" in capsys.readouterr().out
    rows = json.loads((folder / "grid.json").read_text())["rows"]
    assert [len(row["runs"]) for row in rows] == [2, 2]
    losses = rows[0]["validation loss"]
    cells = list(csv.reader((folder / "grid.csv").read_text().splitlines()))
    assert cells[1][4] == f"{mean(losses):.4f} ± {stdev(losses):.4f}"


def test_other_varied_options_have_a_column(train_config: TrainConfig) -> None:
    configs = [replace(train_config, weight_decay=decay, max_epochs=1) for decay in (0.0, 0.1)]
    folder = run_grid(configs, ("weight_decay",)).path
    cells = list(csv.reader((folder / "grid.csv").read_text().splitlines()))
    assert cells[0][3] == "weight_decay"
    assert [row[3] for row in cells[1:]] == ["0", "0.1"]


def test_a_grid_of_several_processes_is_refused(train_config: TrainConfig) -> None:
    with pytest.raises(ValueError, match="a grid runs in one process"):
        run_grid([replace(train_config, num_devices=2)], ("seed",))


def test_processes_train_the_same_and_tables_have_all_forms(train_config: TrainConfig) -> None:
    configs = [replace(train_config, batch_size=size, max_epochs=1) for size in (64, 128)]
    one, two = (
        run_grid([replace(each, workers=n, name="sizes") for each in configs], ("batch_size",)) for n in (1, 2)
    )
    assert [one.name, two.name] == ["grid_sizes", "grid_sizes_2"]

    def results(folder: RunFolder) -> list[list[str]]:
        return [line[:-1] for line in csv.reader(folder.grid_table.read_text().splitlines())]  # without seconds

    assert results(one) == results(two)
    assert one.grid_table.with_suffix(".md").read_text().startswith("|   epoch |   batch_size |")
    assert "\\toprule" in one.grid_table.with_suffix(".tex").read_text()
