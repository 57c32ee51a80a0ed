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
        (-1.5, "\N{MINUS SIGN}1.5"),
        (math.nan, "not a number"),
        (-math.inf, "\N{MINUS SIGN}∞"),
    ],
)
def test_plain(value: float, text: str) -> None:
    assert numbers.plain(value) == text


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
def test_short(value: float, text: str) -> None:
    assert numbers.short(value) == text


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
def test_seconds(value: float, text: str) -> None:
    assert numbers.seconds(value) == text


def test_shares_bits_and_memory() -> None:
    assert numbers.percent(0.30375) == "30.38 %"
    assert numbers.percent(math.nan) == "not a number"
    assert numbers.bits(13.431192) == "13.43"
    assert numbers.memory(3464) == "433 B"
    assert numbers.memory(8e6) == "1 MB"


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
def test_difference(first: float, second: float, text: str) -> None:
    assert numbers.difference(first, second) == text


def test_points() -> None:
    assert numbers.points(0.44, 0.425) == "\N{MINUS SIGN}1.50 points"
    assert numbers.points(0.25, 0.5) == "+25.00 points"
