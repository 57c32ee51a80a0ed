"""Runs are read as far as their files allow, and errors are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chop.reporting.view import overview
from chop.reporting.view.columns import ACCURACY, ALL_FIGURES
from chop.reporting.view.html import Html, element
from chop.reporting.view.routes import respond
from chop.reporting.view.run_record import RunRecord, find_record, list_records, run_names
from reporting.view.conftest import train_summary, transform_summary

AddRun = Callable[..., Path]


def record_of(folder: Path) -> RunRecord:
    found = find_record(folder.parent, folder.name)
    assert found is not None
    return found


def figure_values(record: RunRecord) -> dict[str, tuple[float | None, float | None]]:
    return {each.title: (each.read(record, "after"), each.read(record, "before")) for each in ALL_FIGURES}


def test_figures_of_a_training(add_run: AddRun) -> None:
    record = record_of(add_run("first", train_summary(0.5)))
    assert (record.action, record.model, record.data, record.errors) == ("train", "toy", "jsc", ())
    found = figure_values(record)
    assert found["accuracy"] == (0.5, None)
    assert found["loss"] == (1.25, None)
    assert found["parameters"] == (1234, None)
    assert found["weight bits"] == found["time"] == (None, None)


def test_figures_of_a_transform_are_before_and_after_and_per_sample(add_run: AddRun) -> None:
    record = record_of(add_run("second", transform_summary(0.625, weight_bits=8.0, bitops=25600)))
    found = figure_values(record)
    assert found["accuracy"] == (0.625, 0.75)
    assert found["weight bits"] == (8.0, 32.0)
    assert found["MACs"] == (100, 100)  # 400 for 4 samples
    assert found["BitOPs"] == (6400, 102400)
    assert found["weight memory"] == (3200, 12800)  # weights are shared by all samples
    assert found["time"] == (61.2, None)
    assert record.note == "from first"


def test_without_a_cost_the_bits_measured_by_a_pass_are_used(add_run: AddRun) -> None:
    summary = transform_summary(0.5, 8.0, 1)
    summary["cost"] = None
    summary["measured"] = [{"pass": "calculate_avg_bits_mg", "what": "w_avg_bit", "before": 32.0, "after": 5.5}]
    found = figure_values(record_of(add_run("old", summary)))
    assert found["weight bits"] == (5.5, 32.0)
    assert found["BitOPs"] == (None, None)


def test_a_grid_has_the_names_of_its_runs(project: Path) -> None:
    rows = [{"batch_size": 64, "runs": ["out/a", "out/b"]}, {"batch_size": 128, "runs": ["out/c"]}]
    (project / "grid_toy").mkdir()
    (project / "grid_toy/grid.json").write_text(json.dumps({"title": "toy, data: jsc (generated)", "rows": rows}))
    record = record_of(project / "grid_toy")
    assert (record.action, record.model, record.data, record.note) == ("grid", "toy", "jsc", "3 runs")
    assert record.errors == ()
    assert [run_names(row) for row in rows] == [["a", "b"], ["c"]]


def test_a_search_has_the_figures_of_its_best_trial(add_run: AddRun) -> None:
    summary = {
        "action": "search",
        "trials": {"complete": 30, "pruned": 2},
        "front": 5,
        "plain": {"accuracy": 0.75, "bitops": 1024.0, "weight_bits": 320},
        "best": {"trial": 7, "accuracy": 0.625, "loss": 1.5, "bitops": 64.5, "weight_bits": 80},
    }
    record = record_of(add_run("searched", summary))
    found = figure_values(record)
    assert record.note == "30 trials, 5 Pareto-optimal"
    assert (found["accuracy"], found["loss"]) == ((0.625, 0.75), (1.5, None))
    assert (found["BitOPs"], found["weight memory"]) == ((64.5, 1024.0), (80, 320))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "summary.json is corrupt: Expecting value"),
        ('{"action": "tr', "summary.json is corrupt: Unterminated string"),
        ("[1, 2]", "summary.json is corrupt: it does not hold an object"),
        ("[" * 100_000, "summary.json is corrupt: "),
    ],
)
def test_corrupt_summary_is_reported(add_run: AddRun, text: str, error: str) -> None:
    record = record_of(add_run("broken", text))
    assert len(record.errors) == 1
    assert record.errors[0].startswith(error)
    assert record.model == "toy"  # from run.toml


@pytest.mark.parametrize(
    "summary",
    [
        {"test": "good"},
        {"test": {"accuracy": "high", "loss": None}, "cost": [1], "measured": {"pass": 1}},
        {"model": 3, "dataset": [], "data": 7, "cost": {"samples": 0, "after": {"bitops": 5}}},
        {"test": {"accuracy": True}, "parameters": "many", "checkpoint": 5, "measured": [4, {"pass": []}]},
    ],
)
def test_values_of_wrong_types_count_as_missing(add_run: AddRun, summary: dict[str, object]) -> None:
    record = record_of(add_run("strange", summary))
    assert set(figure_values(record).values()) == {(None, None)}
    assert record.note is None


def test_progress_of_an_unfinished_run_is_shown(add_run: AddRun) -> None:
    folder = add_run("stopped", None)
    lines = ['{"step": 10, "epoch": 1}', '{"step": 20, "epoch": 2, "loss": 1.5}', '{"step": 3']
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    text = "no summary.json: the run was stopped, or is still running (epoch 2, step 20)"
    assert record_of(folder).errors == (text,)
    (folder / "metrics.jsonl").write_text('{"step": 1234567, "epoch": 2}\n')
    assert record_of(folder).errors[0].endswith("(epoch 2, step 1,234,567)")


def test_corrupt_or_missing_options_are_reported(add_run: AddRun) -> None:
    cut = record_of(add_run("cut", train_summary(0.5), config="model = "))
    assert cut.errors[0].startswith("run.toml is corrupt: Invalid value")
    lost = record_of(add_run("lost", train_summary(0.5), config=None))
    assert lost.errors == ("no run.toml: the options of the run are unknown",)


def test_invalid_utf8_is_reported(add_run: AddRun) -> None:
    folder = add_run("bytes", train_summary(0.5))
    (folder / "run.toml").write_bytes(b"\xff\xfe\x00")
    (error,) = record_of(folder).errors
    assert error.startswith("run.toml is corrupt: 'utf-8' codec can't decode byte 0xff")


def test_only_runs_are_listed_newest_first(add_run: AddRun, project: Path) -> None:
    for name in ("b", "a", "c"):
        add_run(name, train_summary(0.5))
    (project / "notes").mkdir()
    (project / "notes/thoughts.txt").write_text("hm")
    (project / ".hidden").mkdir()
    (project / ".hidden/summary.json").write_text("{}")
    (project / "file.json").write_text("{}")
    assert [record.name for record in list_records(project)] == ["c", "a", "b"]


def test_a_changed_summary_is_read_again(add_run: AddRun) -> None:
    folder = add_run("first", train_summary(0.5))
    assert ACCURACY.read(record_of(folder), "after") == 0.5
    (folder / "summary.json").write_text(json.dumps(train_summary(0.8125)))
    assert ACCURACY.read(record_of(folder), "after") == 0.8125


def test_a_summary_behind_a_link_leading_outside_is_not_read(add_run: AddRun, tmp_path: Path) -> None:
    folder = add_run("first", None)
    (tmp_path / "other.json").write_text(json.dumps(train_summary(0.5)))
    (folder / "summary.json").symlink_to(tmp_path / "other.json")
    assert record_of(folder).summary == {}


def test_an_unchanged_run_is_not_read_again(add_run: AddRun, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add_run("first", train_summary(0.5))
    first = record_of(folder)
    resolved: list[Path] = []
    original = Path.resolve

    def counting(self: Path, strict: bool = False) -> Path:
        resolved.append(self)
        return original(self, strict)

    monkeypatch.setattr(Path, "resolve", counting)
    assert record_of(folder) is first
    assert not resolved, "even its paths are not looked up again"
    (folder / "report.html").write_text("<html>")
    assert (first.has_report, record_of(folder).has_report) == (False, True)
    (folder / "summary.json").write_text(json.dumps(train_summary(0.75)))
    assert ACCURACY.read(record_of(folder), "after") == 0.75


def test_a_folder_replaced_by_a_link_is_not_served(add_run: AddRun, tmp_path: Path) -> None:
    folder = add_run("first", train_summary(0.5))
    assert find_record(folder.parent, "first") is not None
    outside = tmp_path / "outside"
    folder.rename(outside)
    folder.symlink_to(outside)
    assert find_record(folder.parent, "first") is None


def test_the_overview_builds_the_rows_of_unchanged_runs_once(
    add_run: AddRun, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        add_run(f"run{number}", train_summary(0.5))
    first = respond(project, "/")
    built: list[object] = []

    def counting(*arguments: Any) -> Html:
        built.append(arguments)
        return element(*arguments)

    monkeypatch.setattr(overview, "element", counting)
    assert respond(project, "/").content == first.content
    num_unchanged = len(built)
    add_run("run9", train_summary(0.25))
    respond(project, "/")
    assert num_unchanged + 8 < len(built) - num_unchanged < num_unchanged + 20, "one more row"


def test_the_accuracy_of_a_search_says_on_which_rows_it_was_measured(add_run: AddRun, project: Path) -> None:
    summary = {"action": "search", "best": {"accuracy": 0.5}, "evaluated_on": "val_dataloader"}
    record = record_of(add_run("searched", summary))
    assert record.evaluated_on == "validation rows"
    assert record_of(add_run("first", train_summary(0.5))).evaluated_on is None
    for address in ("/", "/run/searched"):
        content = respond(project, address).content
        assert isinstance(content, bytes)
        assert b"validation rows" in content


def test_a_start_that_is_the_time_of_a_file_says_so(add_run: AddRun, project: Path) -> None:
    add_run("stored", train_summary(0.5), "# started 2026-01-31T12:00:00+00:00\nseed = 1\n")
    stored = record_of(project / "stored")
    assert (stored.has_file_time, stored.started.timestamp()) == (False, 1769860800.0)
    assert "(file time)" not in overview.overview_page(project, [stored])
    old = record_of(add_run("old", train_summary(0.5)))
    assert old.has_file_time
    assert "(file time)" in overview.overview_page(project, [old])
