"""The comparison of two runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chop.reporting.view.compare import (
    ComparedRow,
    figure_rows,
    format_rows,
    format_text,
    is_same,
    option_rows,
    summary_rows,
)
from chop.reporting.view.run_record import RunRecord, list_records
from reporting.view.conftest import integer, train_summary, transform_summary, write_graph

AddRun = Callable[..., Path]
Texts = dict[str, list[str | None]]


@pytest.fixture
def pair(add_run: AddRun, project: Path) -> list[RunRecord]:
    """Two runs, with 8-bit and then with 4-bit weights."""
    first = add_run("eight", transform_summary(0.75, 8.0, 25600), 'seed = 0\n[passes.quantize]\nby = "type"\n')
    second = add_run("four", transform_summary(0.625, 4.0, 12800), "seed = 1\nextra = true\n[passes.quantize]\n")
    write_graph(first, integer(8, 4))
    write_graph(second, integer(4, 2))
    return list_records(project)[::-1]


def texts(rows: Sequence[ComparedRow], differing: bool | None = None) -> Texts:
    return {row.title: [cell.text for cell in row.cells] for row in rows if differing in (None, row.differs)}


def test_key_figures_have_their_difference_to_the_first_run(pair: list[RunRecord]) -> None:
    rows = {row.title: row for row in figure_rows(pair)}
    assert [cell.text for cell in rows["accuracy"].cells] == ["75.00 %", "62.50 %"]
    changes = {title: (row.cells[1].change, row.cells[1].verdict) for title, row in rows.items() if row.differs}
    assert changes == {
        "accuracy": ("\N{MINUS SIGN}12.50 points", "worse"),
        "weight bits": ("\N{MINUS SIGN}50.0 %", "better"),
        "BitOPs": ("\N{MINUS SIGN}50.0 %", "better"),
    }
    assert [cell.text for cell in rows["BitOPs, before"].cells] == ["102 k", "102 k"]
    assert rows["BitOPs"].cells[0].exact == "6,400"


def test_accuracies_on_other_rows_say_so_and_are_not_compared(add_run: AddRun, project: Path) -> None:
    add_run("tested", train_summary(0.5))
    best = {"trial": 1, "accuracy": 0.75, "bitops": 5}
    add_run("searched", {"action": "search", "evaluated_on": "val_dataloader", "best": best})
    rows = {row.title: row for row in figure_rows(list_records(project)[::-1])}
    tested, searched = rows["accuracy"].cells
    assert (tested.rows, searched.rows) == (None, "validation rows")
    assert (searched.text, searched.change, searched.verdict) == ("75.00 %", "", None)
    assert rows["BitOPs"].cells[1].rows is None


def test_unknown_figures_are_left_out(add_run: AddRun, project: Path) -> None:
    add_run("a", train_summary(0.5))
    add_run("b", train_summary(0.5))
    assert [row.title for row in figure_rows(list_records(project))] == ["accuracy", "loss", "parameters"]


def test_options_are_compared_by_key(pair: list[RunRecord]) -> None:
    rows = option_rows(pair)
    assert texts(rows) == {
        "seed": ["0", "1"],
        "passes.quantize.by": ["type", None],
        "extra": [None, "true"],
        "passes.quantize": [None, "{}"],
    }
    assert all(cell.change == "" for row in rows for cell in row.cells)


def test_formats_are_compared_by_operand(pair: list[RunRecord]) -> None:
    rows, errors = format_rows(pair)
    assert errors == []
    assert texts(rows, differing=True) == {"fc1.weight": ["integer(8, 4)", "integer(4, 2)"]}
    assert texts(rows, differing=False) == {"fc1.data_in_0": ["integer(8, 4)", "integer(8, 4)"]}


def test_without_a_graph_layer_types_are_compared(add_run: AddRun, project: Path) -> None:
    folder = add_run("a", train_summary(0.5)) / "software/transform"
    folder.mkdir(parents=True)
    (folder / "quantize_table.csv").write_text('New name,Quantized type\nfc1,LinearInteger\n"a,b",ReLU\n')
    rows, _ = format_rows(list_records(project))
    assert texts(rows) == {"fc1": ["LinearInteger"], "a,b": ["ReLU"]}


def test_corrupt_graph_is_reported(pair: list[RunRecord]) -> None:
    (pair[0].folder.path / "software/transform/transformed_ckpt/graph.json").write_text('{"metadata": ')
    rows, errors = format_rows(pair)
    assert errors[0].startswith("eight: graph.json is corrupt: ")
    assert texts(rows)["fc1.weight"] == [None, "integer(4, 2)"]


@pytest.mark.parametrize("content", [{}, {"metadata": [1]}, {"metadata": {"a": 3, "b": {"args": [1]}}}])
def test_a_graph_without_formats_has_none(pair: list[RunRecord], content: dict[str, object]) -> None:
    for record in pair:
        (record.folder.path / "software/transform/transformed_ckpt/graph.json").write_text(json.dumps(content))
    assert format_rows(pair) == ([], [])


def test_summaries_include_the_measurements_of_passes(pair: list[RunRecord]) -> None:
    rows = summary_rows(pair)
    assert texts(rows, differing=True) == {
        "test.after.accuracy": ["0.75", "0.625"],
        "cost.after.bitops": ["25,600", "12,800"],
        "cost.after.average_weight_bits": ["8", "4"],
    }
    assert texts(rows)["count_bitops.total_bitops.after"] == ["2", "2"]


def test_confusion_matrices_are_not_compared(add_run: AddRun, project: Path) -> None:
    add_run("a", train_summary(0.5))
    titles = [row.title for row in summary_rows(list_records(project))]
    assert "test.accuracy" in titles
    assert "test.confusion" not in titles


def test_format_text_names_parameters_that_are_not_the_default() -> None:
    assert format_text(integer(8, 4)) == "integer(8, 4)"
    assert format_text(integer(8, 4) | {"rounding": "stochastic"}) == "integer(8, 4, rounding=stochastic)"
    assert format_text({"name": "float", "width": 32}) == "float(32)"
    assert format_text({"name": "mine", "width": 3}) == '{"name": "mine", "width": 3}'
    assert format_text(None) == "?"


def test_nan_equals_nan_and_one_is_not_true() -> None:
    assert is_same(1, 1.0)
    assert is_same(math.nan, math.nan)
    assert not is_same(1, True)
    assert not is_same(None, 0)
