"""Key figures: titles, units and text."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import get_args

import pytest

from chop.display.figures import KEY_FIGURES, KeyFigure, Kind, declare_figure, figure


@pytest.mark.parametrize("name", KEY_FIGURES)
def test_every_key_figure_has_a_title_and_help_and_is_written(name: str) -> None:
    found = figure(name)
    assert found.name == name
    assert found.title
    assert found.help
    assert found.text(0.5)
    assert found.column_text(0.5)


@pytest.mark.parametrize(
    ("name", "value", "text", "column_text"),
    [
        ("accuracy", 0.92314, "92.31 %", "0.9231"),
        ("accuracy_change", -0.0125, "\N{MINUS SIGN}1.25 points", "-0.0125"),
        ("average_bitwidth", 4.5, "4.5", "4.50"),
        ("bitops", 1234567, "1.23 M", "1,234,567"),
        ("weight_bits", 3464, "433 B", "433 B"),
        ("energy_pj", 4500, "4.5 nJ", "4.5 nJ"),
        ("sqnr_db", 31.44, "31.4 dB", "31.4"),
        ("seconds", 61.2, "1 min 1 s", "61.2"),
    ],
)
def test_values_are_written_by_kind(name: str, value: float, text: str, column_text: str) -> None:
    assert figure(name).text(value) == text
    assert figure(name).column_text(value) == column_text


def test_changes_of_shares_are_in_points_and_of_others_relative() -> None:
    assert figure("accuracy").change(0.5, 0.521) == "+2.10 points"
    assert figure("bitops").change(200, 100) == "\N{MINUS SIGN}50.0 %"


def test_titles_for_headings_columns_and_axes() -> None:
    memory, macs = figure("weight_bits"), figure("macs")
    assert (memory.heading, memory.axis_title) == ("Weight memory", "weight memory (bits)")
    assert figure("bitops").column_title == "BitOPs"
    assert figure("average_weight_bits").column_heading == "Weight bits"
    assert (macs.heading, macs.column_title, macs.axis_title) == ("MACs", "MACs", "MACs")


def test_an_unknown_name_is_its_own_title() -> None:
    found = figure("my_metric")
    assert (found.title, found.better, found.text(1234.5)) == ("my metric", None, "1,235")


def test_declared_figures_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEY_FIGURES, "_entries", dict(KEY_FIGURES))
    declared = declare_figure(
        KeyFigure("luts", "LUTs", "look-up tables of the design", better="lower", kind="count")
    )
    assert figure("luts") is declared
    with pytest.raises(ValueError, match="key figure 'luts' is already registered"):
        declare_figure(declared)


def test_the_page_can_write_every_kind() -> None:
    script = files("chop.page").joinpath("assets/numbers.js").read_text()
    table = script.partition("const SHOWN = {")[2].partition("\n};")[0]
    assert set(get_args(Kind)) <= set(re.findall(r"^  (\w+)[:,]", table, flags=re.MULTILINE))
