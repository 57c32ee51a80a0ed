"""`ch sweep`: its table, its plot and its best setting."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import chop
from chop.config import SweepConfig, TrainConfig
from chop.runs import RunFolder
from chop.sweeping.results import Row, SweepResults
from chop.sweeping.settings import Setting
from chop.sweeping.sweep import sweep
from chop.sweeping.table import COSTS
from chop.training.train import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    project = tmp_path_factory.mktemp("project")
    return train(TrainConfig(model="toy", dataset="toy_tiny", max_epochs=2, project_dir=project))


@pytest.fixture
def config(trained: RunFolder, tmp_path: Path) -> SweepConfig:
    options = {"project_dir": tmp_path, "load_name": trained.path}
    return SweepConfig(model="toy", dataset="toy_tiny", widths="4,8", **options)  # type: ignore[arg-type]


def test_rows_are_what_transform_measures(config: SweepConfig, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sweep(replace(config, max_drop=100.0))
    printed = capsys.readouterr().out
    with folder.sweep_table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["format"], row["bits"]) for row in rows] == [("unchanged", ""), ("integer", "4"), ("integer", "8")]
    assert all(row["accuracy"] in printed for row in rows)
    for path in (folder.sweep_plot, folder.sweep_table.with_suffix(".md"), folder.sweep_table.with_suffix(".tex")):
        assert path.stat().st_size > 0

    assert "with a loss of at most 100 percentage points of validation accuracy: integer" in printed
    # 100 points may be lost, so the best setting is the one with the fewest bit operations: 4 bits.
    result = chop.transform(config=folder.sweep_config)
    assert f"{result.summary['test']['after']['accuracy']:.4f}" == rows[1]["accuracy"]
    assert f"{result.summary['test']['before']['accuracy']:.4f}" == rows[0]["accuracy"]
    # toy has layers 4 -> 16, 16 -> 16, 16 -> 2: 352 MACs of 4 x 4 bits; 352 weights of 4 bits, 34 biases of 32.
    assert rows[1]["BitOPs"] == str(352 * 16)
    assert (rows[0]["bits per weight"], rows[0]["bits per activation"]) == ("32.00", "32.00")
    assert (rows[1]["bits per weight"], rows[1]["bits per activation"]) == ("4.00", "4.00")
    assert rows[1]["weight memory in bits"] == str(352 * 4 + 34 * 32)
    share = float(rows[1]["accuracy"])
    assert rows[1]["standard error"] == f"{math.sqrt(share * (1 - share) / 200):.4f}"


def test_python_returns_the_run(config: SweepConfig) -> None:
    run = chop.sweep(
        "toy",
        "toy_tiny",
        formats=["integer"],
        widths=range(7, 9),
        load=config.load_name,
        project_dir=config.project_dir,
    )
    assert [row["bits"] for row in run.summary["rows"]] == [7, 8]
    assert run.action == "sweep"


def test_processes_measure_the_same(config: SweepConfig) -> None:
    one, two = (sweep(replace(config, workers=workers)) for workers in (1, 2))
    assert one.sweep_table.read_text() == two.sweep_table.read_text()


def row(setting: Setting | None, accuracy: float, bitops: float) -> Row:
    costs = {"bitops": bitops, "weight_bits": 0.0}
    return Row(setting, {"accuracy": 1 - accuracy}, costs, {"validation_accuracy": accuracy})


def test_a_language_model_is_shown_with_its_perplexity() -> None:
    metrics, costs = (
        {"perplexity": 22.5, "loss": 3.1135, "accuracy": 0.4},
        dict.fromkeys(COSTS, 8.0),
    )
    assert Row(None, metrics, costs, {"validation_accuracy": 0.5}).cells(exact=True) == {
        "format": "unchanged",
        "bits": "",
        "validation accuracy": "0.5000",
        "perplexity": "22.5000",
        "loss": "3.1135",
        "bits per weight": "8.00",
        "bits per activation": "8.00",
        "BitOPs": "8",
        "weight memory in bits": "8",
    }


def test_candidates_are_those_that_are_accurate_enough_on_validation_rows_the_cheapest_first() -> None:
    rows = [row(Setting("integer", {"width": w}), accuracy, w) for w, accuracy in ((5, 0.91), (4, 0.9), (3, 0.5))]
    results = SweepResults(row(None, 0.91, 99), rows, "")
    assert results.candidates(1.0) == [rows[1], rows[0]]
    assert results.candidates(0.0) == [rows[0]]
    assert results.candidates(50.0) == rows[::-1]
    assert SweepResults(row(None, 1.0, 99), rows, "").candidates(1.0) == []


def test_the_choice_keeps_the_budget_on_rows_held_back(
    config: SweepConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sweep(replace(config, max_drop=20.0))
    found = folder.read_summary()
    chosen = next(row for row in found["rows"] if f"{row['format']}, {row['bits']:g} bits" == found["best"])
    budget = found["budget"]
    assert [(name, each["predictions"]) for name, each in budget.items()] == [
        *(("validation", 80), ("held back", 720), ("test", 200))
    ]
    for split, name in (("validation", "validation_accuracy"), ("test", "accuracy")):
        assert budget[split]["points"] == pytest.approx(100 * (found["baseline"][name] - chosen[name]))
    assert max(budget[name]["limit"] for name in ("validation", "held back")) <= 20
    assert "loss of accuracy in percentage points on" in capsys.readouterr().out


def test_one_percentage_point_is_singular(config: SweepConfig, capsys: pytest.CaptureFixture[str]) -> None:
    sweep(replace(config, widths="8"))  # --max-drop is 1 by default
    assert "at most 1 percentage point of validation accuracy" in capsys.readouterr().out


def test_untrained_weights_are_reported(config: SweepConfig, caplog: pytest.LogCaptureFixture) -> None:
    sweep(replace(config, load_name=None, widths=8))
    assert "no checkpoint is loaded" in caplog.text


def test_a_run_shows_its_table_and_plot_in_notebooks(config: SweepConfig, trained: RunFolder) -> None:
    run = chop.open_run(sweep(config).path)
    text = run._repr_html_()
    assert "<td>integer</td><td>4</td>" in text
    assert "<tr><th></th><th>accuracy</th><th>loss</th></tr>" in text  # what the best setting and the original have
    assert text.count("data:image/png;base64,") == 1
    axes = chop.plot(run).axes[0]
    assert axes.lines[-1].get_label() == "unchanged"
    rows = run.summary["rows"]
    (line,) = (line for line in axes.lines if line.get_label() == "integer")
    assert np.max(line.get_ydata()) == max(row["accuracy"] for row in rows)
    text = chop.open_run(trained.path)._repr_html_()
    assert "<td>validation</td>" in text
    assert text.count("data:image/png;base64,") == 1


def test_the_plot_is_over_the_bits_that_the_table_shows(config: SweepConfig) -> None:
    blocks = sweep(replace(config, formats="mxint", widths="8"))
    (row,) = blocks.read_summary()["rows"]
    # Rows of 4 and 16 weights have a scale of 8 bits each: 8 + 8 x (16 + 16 + 2) / 352 bits.
    assert row["quantized_weight_bits"] == pytest.approx(8 + 8 * 34 / 352)
    axes = chop.plot(chop.open_run(blocks.path)).axes[0]
    assert axes.get_xlabel() == "bits per weight"
    assert axes.lines[0].get_xdata() == [row["quantized_weight_bits"]]
    only_inputs = sweep(replace(config, roles="data_in", widths="8"))
    assert chop.plot(chop.open_run(only_inputs.path)).axes[0].get_xlabel() == "bits per activation"


def test_parameters_of_a_format_are_in_the_rows_and_in_the_best_setting(config: SweepConfig) -> None:
    given = "integer(scale=float,granularity=channel)"
    folder = sweep(replace(config, formats=given, widths="4", max_drop=100.0))
    (row,) = folder.read_summary()["rows"]
    assert row["format"] == given
    # 352 weights of 4 bits, and a scale of 32 bits per output channel.
    assert row["quantized_weight_bits"] == pytest.approx(4 + 32 * 34 / 352)
    result = chop.transform(config=folder.sweep_config)
    assert result.summary["test"]["after"]["accuracy"] == row["accuracy"]


def test_recovery_is_in_the_rows_and_in_the_best_setting(config: SweepConfig) -> None:
    plain, recovered = (
        sweep(replace(config, widths="4", max_drop=100.0, recover_accuracy=each)) for each in (False, True)
    )
    rows = [chop.open_run(folder.path).summary["rows"][0] for folder in (plain, recovered)]
    assert rows[0]["loss"] != rows[1]["loss"]
    assert "[passes.recover_accuracy]" in recovered.sweep_config.read_text()
    assert "[passes.recover_accuracy]" not in plain.sweep_config.read_text()


def test_a_quantised_start_is_labelled_in_the_terminal_the_table_and_the_page(
    config: SweepConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    eight = {"by": "type", "default": {"config": {"name": "integer", "data_in_width": 8, "weight_width": 8}}}
    options = {"load": config.load_name, "project_dir": config.project_dir}
    quantized = chop.transform("toy", "toy_tiny", {"quantize": eight}, **options)
    folder = sweep(replace(config, load_name=quantized.folder.path))
    page = chop.report(folder.path).read_text()
    for text in (capsys.readouterr().out, folder.sweep_table.read_text(), page):
        assert "unchanged (quantised)" in text
    assert folder.read_summary()["quantized_start"] is True
    assert folder.read_summary()["baseline"]["bits"] == 8


def test_accuracies_are_those_of_the_validation_and_the_test_rows(config: SweepConfig) -> None:
    folder = sweep(config)
    with folder.sweep_table.open() as file:
        eight = list(csv.DictReader(file))[2]
    options = {"load": config.load_name, "project_dir": config.project_dir}
    graph = chop.transform("toy", "toy_tiny", rounded_to(8), **options)
    for title, split in (("validation accuracy", "val"), ("accuracy", "test")):
        rows = getattr(graph.experiment.data.splits, split)
        with torch.no_grad():
            right = graph.model.eval()(rows.features).argmax(1) == rows.labels
        assert eight[title] == f"{right.double().mean():.4f}"
    assert folder.read_summary()["chosen_by"] == "validation_accuracy"


def rounded_to(width: int) -> dict[str, Any]:
    params: dict[str, Any] = {f"{role}_width": width for role in ("weight", "data_in")}
    params |= {f"{role}_frac_width": "auto" for role in ("weight", "data_in")}
    return {"quantize": {"by": "type", "linear": {"config": {"name": "integer", **params, "bias_name": "float"}}}}
