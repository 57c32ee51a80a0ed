"""Formats as text."""

from __future__ import annotations

import re

import pytest

from chop.formats import FORMATS, Format, parameters
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.minifloat import MinifloatIEEE
from chop.formats.nvfp4 import NVFP4
from chop.formats.parts.spelling import read_format
from chop.formats.ternary import Ternary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("integer", Integer()),
        (" fp8() ", FP8()),
        ("integer(width=4, scale=float)", Integer(4, scale="float")),
        ('integer(scale = "float",width=6)', Integer(6, scale="float")),
        ("integer(8, -2, is_signed=False)", Integer(8, -2, is_signed=False)),
        ("nvfp4(block_size=[16, 16], rounding=stochastic)", NVFP4(block_size=(16, 16), rounding="stochastic")),
        ("ternary(scaling=false, threshold=0.5)", Ternary(False, 0.5)),
        ("minifloat_ieee(6, 3, exponent_bias=none)", MinifloatIEEE(6, 3)),
    ],
)
def test_a_format_is_a_name_and_parameters_in_brackets(text: str, expected: Format) -> None:
    assert read_format(text, "here") == expected


def _formats() -> list[Format]:
    """Return every format with its default parameters, and with each value that a search would try."""
    found = [cls() for name, cls in FORMATS.items() if name != "mixed_integer"]  # its widths are per element
    for cls in FORMATS.values():
        for field in parameters(cls):
            for value in field.metadata["search"]:
                try:
                    found.append(cls(**{field.name: value}))
                except ValueError:
                    continue
    return found


@pytest.mark.parametrize("number_format", _formats(), ids=str)
def test_a_format_can_be_read_from_its_own_text(number_format: Format) -> None:
    if number_format.name != "mixed_integer":
        assert read_format(str(number_format), "here") == number_format


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("integer(float)", "'float' is not a parameter; write 'name=value'"),
        ("integer(width=)", "'width=' is not a parameter"),
        ("integer(scale=float, 4)", "'4' is not a parameter"),
        ("integer(width=4, width=5)", "'width' is given twice"),
        ("integer(4, width=4)", "'width' is given twice"),
        ("nvfp4(5)", "this format has 4 bits, not 5"),
        ("float(32, 4)", "float takes at most 1 number without a name: width"),
        ("integer(width=4", "is not a format; write 'integer' or"),
        ("integer(widht=4)", "unknown key 'widht'; did you mean 'width'"),
        ("", "'' is not a format"),
    ],
)
def test_a_text_that_is_not_a_format_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_format(text, "here")
