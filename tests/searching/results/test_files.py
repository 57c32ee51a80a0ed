"""The files of a search, read with other tools than those that wrote them."""

from __future__ import annotations

import csv
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import pyarrow.parquet
import pytest

from chop.cli import main
from chop.config import SearchConfig
from chop.config.search import SpaceTable
from chop.page.search_log import read_search_log
from chop.searching.search import search
from searching.conftest import TOY_LAYER

pytestmark = pytest.mark.slow


def read(run: Path, name: str = "search/log.json") -> Any:
    return json.loads((run / name).read_text())


def test_best_toml_gives_the_accuracy_of_the_best_trial(toy_search: SearchConfig) -> None:
    run = search(toy_search)
    best = read(run, "summary.json")["best"]
    assert main(["transform", "--config", str(run / "search" / "best.toml")]) == 0
    made = max(toy_search.project_dir.glob("*/software/transform"), key=lambda each: each.stat().st_mtime)
    after = read(made.parents[1], "summary.json")
    assert after["test"]["after"]["accuracy"] == pytest.approx(best["accuracy"], abs=1e-9)
    assert after["test"]["after"]["loss"] == pytest.approx(best["loss"], rel=1e-5)
    assert after["cost"]["after"]["bitops"] / after["cost"]["samples"] == best["bitops"]


def test_the_log_has_all_trials_and_can_be_read_by_the_report(toy_search: SearchConfig) -> None:
    run = search(toy_search)
    log = read(run)
    assert set(log) == {"study", "plain", "metrics", "trials"}
    assert log["metrics"] == {
        "accuracy": {"direction": "maximize", "scale": 1.0},
        "bitops": {"direction": "minimize", "scale": 1.0},
    }
    own = [each for each in log["trials"] if each["baseline"] is None]
    assert [each["number"] for each in own] == list(range(len(own)))
    assert len(own) >= 24
    assert {each["state"] for each in own} == {"complete"}
    labels = [each["baseline"] for each in log["trials"] if each["baseline"] is not None]
    assert labels == [f"integer, {width} bits" for width in (8, 6, 4, 2)]
    for each in log["trials"]:
        assert (each["toml"] is not None) == (each["front"] or each["baseline"] is not None)
    first = tomllib.loads(next(each["toml"] for each in own if each["front"]))
    assert set(first["passes"]["quantize"]) == {"by", "seq_blocks_0", "seq_blocks_4"}
    shown = read_search_log(log)
    assert shown is not None
    assert len(shown["trials"]) == len(log["trials"])


def test_the_log_has_a_line_per_trial(toy_search: SearchConfig) -> None:
    run = search(toy_search)
    lines = (run / "search" / "log.json").read_text().splitlines()
    numbers = [json.loads(line.rstrip(","))["number"] for line in lines if '"number"' in line]
    assert numbers == [each["number"] for each in read(run)["trials"]]


def test_files_that_are_up_to_date_are_not_written_again(toy_search: SearchConfig) -> None:
    run = search(toy_search)
    files = [file for file in (run / "search").iterdir() if file.suffix in (".csv", ".json", ".parquet", ".png")]
    before = [file.stat().st_mtime_ns for file in files]
    again = replace(toy_search, resume=True)
    assert search(again) == run
    assert [file.stat().st_mtime_ns for file in files] == before
    search(replace(again, max_drop=50.0))  # another rule for the best trial
    assert [file.stat().st_mtime_ns for file in files] != before


def test_the_front_is_pareto_optimal_among_all_trials(toy_search: SearchConfig) -> None:
    run = search(toy_search)
    table = pyarrow.parquet.read_table(run / "search" / "trials.parquet").to_pylist()
    points = {(each["metric.accuracy"], each["metric.bitops"]) for each in table}
    expected = {
        (accuracy, bitops)
        for accuracy, bitops in points
        if not any(a >= accuracy and b <= bitops and (a, b) != (accuracy, bitops) for a, b in points)
    }
    with (run / "search" / "pareto.csv").open() as file:
        front = list(csv.DictReader(file))
    assert {(float(row["accuracy"]), float(row["bitops"])) for row in front} == expected
    assert [int(row["trial"]) for row in front] == [each["trial"] for each in _in_order(table)]
    assert all(row["uniform"].startswith("integer, ") for row in front)
    assert {each["param.seq_blocks_0/weight_frac_width"] for each in table} == {"NA", "3"}


def _in_order(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted((each for each in table if each["front"]), key=lambda each: -each["metric.accuracy"])


def test_the_plot_is_an_image(toy_search: SearchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    run = search(toy_search)
    height, width, _ = matplotlib.image.imread(run / "search" / "pareto.png").shape
    assert width > height > 500


def test_a_max_drop_that_no_trial_meets_is_an_error(
    toy_search: SearchConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    two = {**TOY_LAYER, "data_in_width": [2], "weight_width": [2]}
    space = SpaceTable(seed={"default": {"config": two}})
    narrow = replace(toy_search, search=replace(toy_search.search, search_space=space), max_drop=0.1)
    with pytest.raises(ValueError, match=r"all trials lose more .* 'max_drop' 0.1; .* trial \d+, loses \d"):
        search(narrow)
    run = max(toy_search.project_dir.glob("*/search"), key=lambda each: each.stat().st_mtime)
    assert (run / "log.json").is_file()
    assert not (run / "best.toml").exists()
    assert "best:" not in capsys.readouterr().out


def test_a_search_needs_only_a_max_drop(toy_search: SearchConfig, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "search",
        "toy",
        "toy_tiny",
        "--load",
        str(toy_search.load_name),
        "--max-drop",
        "20",
        "--n-trials",
        "8",
    ]
    words += ["--batch-size", "64", "--project-dir", str(toy_search.project_dir / "plain")]
    assert main(words) == 0
    (run,) = (toy_search.project_dir / "plain").iterdir()
    summary = read(run, "summary.json")
    assert summary["strategy"] == "ilp"
    best, plain = summary["best"], summary["plain"]
    budget = summary["budget"]
    assert list(budget) == ["validation", "held back", "test"]
    assert budget["validation"]["points"] == pytest.approx(100 * (plain["accuracy"] - best["accuracy"]))
    assert [each["predictions"] for each in budget.values()] == [80, 720, 200]
    assert max(budget[name]["limit"] for name in ("validation", "held back")) <= 20
    text = (run / "search" / "best.toml").read_text()
    assert "# held back" in text
    passes = tomllib.loads(text)["passes"]["quantize"]
    assert set(passes) == {"by", "seq_blocks_0", "seq_blocks_2", "seq_blocks_4"}
    rule = (
        "lowest bit operations of all trials that lose at most 20 percentage points of accuracy on validation rows"
    )
    assert text.startswith(f"# Trial {best['trial']}: {rule} and on rows held back.\n")
    assert "untrained weights" not in capsys.readouterr().err


def test_untrained_weights_are_reported(toy_search: SearchConfig, caplog: pytest.LogCaptureFixture) -> None:
    search(replace(toy_search, load_name=None, n_trials=1))
    assert "'toy' has untrained weights; load one with 'load'" in caplog.text


def test_options_of_the_session_are_not_in_the_configurations_that_were_found(toy_search: SearchConfig) -> None:
    run = search(replace(toy_search, no_warnings=True, log_level="debug"))
    for text in [(run / "search/best.toml").read_text(), *(each["toml"] or "" for each in read(run)["trials"])]:
        assert not {"no_warnings", "log_level", "debug"} & set(tomllib.loads(text))
