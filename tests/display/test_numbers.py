"""Numbers as text."""

from __future__ import annotations

import math

import pytest

from chop.display import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (10**30, "1e+30"),
        (2.0, "2"),
        (1 / 3, "0.333333"),
        (335875.25, "335,875"),
        (-1.5, "\N{MINUS SIGN}1.5"),
        (math.nan, "not a number"),
        (-math.inf, "\N{MINUS SIGN}∞"),
    ],
)
def test_exact(value: float, text: str) -> None:
    assert numbers.exact(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.0, "1 percentage point"), (0.5, "0.5 percentage points")])
def test_percentage_points(value: float, text: str) -> None:
    assert numbers.percentage_points(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (327, "327"),
        (1234, "1.23 k"),
        (999.4, "999"),
        (999999, "1 M"),
        (203636736, "204 M"),
        (0.00123, "0.00123"),
    ],
)
def test_with_prefix(value: float, text: str) -> None:
    assert numbers.with_prefix(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.0123, "12.3 ms"),
        (5.25, "5.25 s"),
        (61.2, "1 min 1 s"),
        (7384, "2 h 3 min"),
        (math.inf, "∞ s"),
    ],
)
def test_duration(value: float, text: str) -> None:
    assert numbers.duration(value) == text


def test_percent_significant_memory_and_energy() -> None:
    assert numbers.percent(0.30375) == "30.38 %"
    assert numbers.percent(math.nan) == "not a number"
    assert numbers.significant(13.431192) == "13.43"
    assert numbers.memory(3464) == "433 B"
    assert numbers.memory(8e6) == "1 MB"
    assert numbers.energy(0.5) == "0.5 pJ"
    assert numbers.energy(999.9) == "1 nJ"


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (200, 100, "\N{MINUS SIGN}50.0 %"),
        (100, 150, "+50.0 %"),
        (100, 400, "\N{MULTIPLICATION SIGN}4"),
        (0, 3, "+3"),
        (-2.0, -1.0, "+50.0 %"),
        (1.0, math.inf, ""),
    ],
)
def test_relative_change(first: float, second: float, text: str) -> None:
    assert numbers.relative_change(first, second) == text


def test_change_in_points() -> None:
    assert numbers.change_in_points(0.44, 0.425) == "\N{MINUS SIGN}1.50 points"
    assert numbers.change_in_points(0.25, 0.5) == "+25.00 points"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (-3, "-3"),
        (2.0, "2"),
        (1234567, "1,234,567"),
        (12345.6, "12,346"),
        (1234.56, "1234.6"),
        (1 / 3, "0.33333"),
        (1e-7, "1e-07"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_table_number(value: float | None, text: str) -> None:
    assert numbers.table_number(value) == text


def test_table_decibels() -> None:
    assert numbers.table_decibels(None) == "-"
    assert numbers.table_decibels(math.inf) == "exact"
    assert numbers.table_decibels(-3.06) == "-3.1 dB"
