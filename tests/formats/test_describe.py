"""Descriptions and plots of formats."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from chop.formats import FORMATS, Format
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP
from chop.formats.parts.describe import describe, plot, text_plot, values_of


@pytest.mark.parametrize(
    ("number_format", "largest", "smallest", "bits", "count"),
    [
        (FP8("e4m3"), 448.0, 2.0**-9, 8, 253),  # 254 finite codes, two of which are zero
        (FP8("e5m2"), 57344.0, 2.0**-16, 8, 247),
        (MXFP("e2m1"), 6.0, 0.5, 4.25, 15),
        (MXFP("e3m2"), 28.0, 2.0**-4, 6.25, 63),
        (Integer(8, 4), 127 / 16, 1 / 16, 8, 256),
        (Integer(32, 0), 2147483520.0, 1.0, 32, 2**32),
    ],
)
def test_range_step_and_count(
    number_format: Format, largest: float, smallest: float, bits: float, count: int
) -> None:
    found = describe(number_format)
    assert (found.largest, found.smallest, found.bits, found.num_values) == (largest, smallest, bits, count)
    assert found.dynamic_range_db == pytest.approx(20 * math.log10(largest / smallest))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_described(name: str) -> None:
    found = describe(FORMATS[name]())
    assert found.largest >= found.smallest > 0


def test_the_text_plot_is_dense_near_zero_for_floats() -> None:
    drawn, ends = text_plot(FP8("e4m3"), 41).splitlines()
    assert len(drawn) == 41
    assert drawn[20] == "#"
    assert ends.split() == ["-448", "448"]


def test_too_many_values_are_not_listed() -> None:
    with pytest.raises(ValueError, match="has too many values to list"):
        values_of(Integer(32, 0))


@pytest.mark.slow
def test_the_plot_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot(MXFP(), tmp_path / "mxfp.png")
    assert (tmp_path / "mxfp.png").read_bytes().startswith(b"\x89PNG")
