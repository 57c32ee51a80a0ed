"""The results of runs as tables and plots for papers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import chop
from chop.display.tables import Measured
from chop.runs import RunFolder

DATA = {"title": "jsc", "rows": {"train": 800, "validation": 100, "test": 400}}
COST = {"weight_bits": 1600, "bitops": 5000.0, "quantized_weight_bits": 4.0}


def made(root: Path, name: str, action: str, **summary: Any) -> chop.Run:
    """Write a run with this summary."""
    folder = RunFolder(root / name)
    folder.path.mkdir(parents=True)
    common = {"action": action, "model": "jsc-toy", "dataset": "jsc", "task": "classification", "data": DATA}
    folder.summary.write_text(json.dumps(common | summary))
    folder.config.write_text('model = "jsc-toy"\ndataset = "jsc"\n')
    return chop.open_run(folder.path)


def sweep(root: Path, name: str = "sweep") -> chop.Run:
    def row(setting: str, bits: float, accuracy: float, memory: int) -> dict[str, Any]:
        stored = {"weight_bits": memory, "quantized_weight_bits": bits}
        return {"format": setting, "bits": bits, "accuracy": accuracy} | COST | stored

    rows = [row("integer", 4.0, 0.5, 3200), row("integer", 8.0, 0.64, 4000)]
    rows += [
        row("mxfp e3m2", 6.25, 0.6, 3600),
        row("mxfp e2m3", 6.25, 0.62, 3600),
        row("mxfp e4m3", 8.25, 0.64, 4400),
    ]
    return made(root, name, "sweep", baseline=row("unchanged", 32.0, 0.75, 16_000), rows=rows)


def search(root: Path) -> chop.Run:
    def trial(number: int, accuracy: float, bitops: float, baseline: str | None = None) -> dict[str, Any]:
        metrics = {"accuracy": accuracy, "bitops": bitops, "weight_bits": 800}
        state = {"state": "complete", "baseline": baseline, "front": baseline is None}
        return {"number": number, "metrics": metrics} | state

    plain = {"accuracy": 0.8, "bitops": 90_000.0, "weight_bits": 3200}
    run = made(root, "search", "search", evaluated_on="val_dataloader", best={"trial": 3})
    run.folder.search.mkdir()
    trials = [trial(2, 0.8, 9000.0), trial(3, 0.7, 4000.0), trial(-1, 0.6, 5000.0, "integer, 4 bits")]
    metrics = {"accuracy": {"direction": "maximize"}, "bitops": {"direction": "minimize"}}
    log = {"study": "search", "plain": plain, "metrics": metrics, "trials": trials}
    run.folder.search_log.write_text(json.dumps(log))
    return run


def labels(figure: Figure) -> list[str]:
    legend = figure.axes[0].get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_the_table_of_a_sweep_has_its_settings_with_standard_errors_of_the_test_rows(tmp_path: Path) -> None:
    table = sweep(tmp_path).table("accuracy", "weight_bits")
    assert table.columns == ("model", "accuracy", "weight_bits")
    assert table.rows[2] == ("integer, 8 bits", Measured(0.64, 0.024), 4000)  # sqrt(0.64 * 0.36 / 400)
    assert table.rows[4][0] == "mxfp e2m3, 6.25 bits"
    assert r"integer, 8 bits      & 64.00 $\pm$ 2.40 &               500 \\" in table.to_latex()
    assert table.caption == "jsc-toy, data: jsc, test rows"


def test_the_table_of_a_search_has_the_original_the_baselines_and_the_front_with_the_chosen_trial(
    tmp_path: Path,
) -> None:
    table = search(tmp_path).table()
    assert table.columns == ("model", "accuracy", "bitops", "weight_bits")
    assert table.column("model") == ["original", "integer, 4 bits", "trial 3 (chosen)", "trial 2"]
    assert table.column("accuracy")[0] == Measured(0.8, 0.04)  # sqrt(0.8 * 0.2 / 100) of validation rows
    assert table.caption.endswith("validation rows")


def test_the_table_of_a_transform_has_the_model_before_and_after_with_costs_per_sample(tmp_path: Path) -> None:
    cost = {"samples": 10, "before": {"weight_bits": 3200, "bitops": 90_000.0}, "after": COST}
    test = {"before": {"accuracy": 0.8, "loss": 0.5}, "after": {"accuracy": 0.5, "loss": 0.7}}
    table = made(tmp_path, "int4", "transform", test=test, cost=cost, parameters=100).table()
    assert table.columns == ("model", "accuracy", "loss", "parameters", "bitops", "weight_bits")
    assert list(table.rows[1]) == ["after", Measured(0.5, 0.025), 0.7, 100, 500.0, 1600]


def test_the_table_of_a_training_has_its_splits_and_of_other_tasks_no_standard_errors(tmp_path: Path) -> None:
    metrics = {"train": {"accuracy": 0.8}, "validation": {"accuracy": 0.64}, "test": {"accuracy": 0.5}}
    table = made(tmp_path, "classes", "train", **metrics).table()
    assert table.column("accuracy") == [
        Measured(share, math.sqrt(share * (1 - share) / rows))
        for share, rows in ((0.8, 800), (0.64, 100), (0.5, 400))
    ]
    assert made(tmp_path, "lm", "train", **metrics, task="lm").table().column("accuracy") == [0.8, 0.64, 0.5]


def test_a_table_says_which_results_are_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no results called 'acuracy'; did you mean 'accuracy'"):
        sweep(tmp_path).table("acuracy")


def test_a_plot_for_a_paper_has_lines_that_differ_in_grey_error_bars_and_no_title(tmp_path: Path) -> None:
    figure = chop.plot([sweep(tmp_path), search(tmp_path)], x="bitops", y="accuracy")
    axes = figure.axes[0]
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert len({(line.get_marker(), str(line.get_linestyle())) for line in lines[:4]}) == 4
    assert labels(figure)[:4] == [
        "sweep: integer", "sweep: mxfp", "search: uniform integer", "search: front",
    ]  # fmt: skip
    assert labels(figure)[4:] == ["sweep: unchanged", "search: original"]
    assert (figure.get_size_inches()[0], axes.get_title(), figure.get_suptitle()) == (3.4, "", "")
    assert axes.get_ylabel() == "Accuracy (%)"
    bars = [segment for bar in axes.collections for segment in bar.get_segments()]  # type: ignore[attr-defined]
    assert bars[1][:, 1].tolist() == pytest.approx([64 - 2.4, 64 + 2.4])


def test_formats_with_as_many_bits_are_named_at_their_markers_in_a_plot(tmp_path: Path) -> None:
    axes = chop.plot(sweep(tmp_path), x="weight_bits").axes[0]
    assert {text.get_text() for text in axes.texts} - {""} == {"e3m2", "e2m3", "e4m3"}
    mxfp = next(line for line in axes.lines if line.get_label() == "mxfp")
    assert np.asarray(mxfp.get_xydata()).tolist() == [
        [450, 62],
        [550, 64],
    ]  # bytes and percent, through the better one
    assert axes.get_xlabel() == "Weight memory (B)"


def test_a_plot_is_drawn_into_the_axes_of_a_figure_of_the_user(tmp_path: Path) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert chop.plot(sweep(tmp_path), ax=right) is figure
    assert not left.lines
    assert right.lines


def test_a_plot_of_something_that_a_run_has_not_measured_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no results called 'energy_pj'"):
        chop.plot(sweep(tmp_path), x="energy_pj")


def test_the_plot_of_a_sweep_names_elements_with_as_many_bits(tmp_path: Path) -> None:
    axes = chop.plot(sweep(tmp_path)).axes[0]
    places = {text.get_text(): text.xy for text in axes.texts if text.get_text()}  # type: ignore[attr-defined]
    assert places == {"e3m2": (6.25, 0.6), "e2m3": (6.25, 0.62), "e4m3": (8.25, 0.64)}


def test_the_plot_of_a_search_marks_the_chosen_trial_and_shows_the_accuracies_that_matter(tmp_path: Path) -> None:
    run = search(tmp_path)
    log = json.loads(run.folder.search_log.read_text())
    useless = {"accuracy": 0.1, "bitops": 20.0, "weight_bits": 8}
    log["trials"].append({"number": 9, "metrics": useless, "state": "complete", "baseline": None, "front": True})
    run.folder.search_log.write_text(json.dumps(log))
    axes = chop.plot(run).axes[0]
    chosen = next(line for line in axes.lines if line.get_label() == "chosen: trial 3")
    assert np.asarray(chosen.get_xydata()).tolist() == [[4000, 0.7]]
    assert 0.3 < axes.get_ylim()[0] < 0.5  # the front begins at 80 %, the chosen trial loses 10 points
    assert axes.get_title(loc="right") == "1 point below 50% not shown"
    assert axes.get_xlim()[0] > 1000
