"""Formats as text."""

from __future__ import annotations

from typing import Any

import pytest

from chop.formats.parts.spelling import read_spelling


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("integer", ("integer", {})),
        (" fp8() ", ("fp8", {})),
        ("w4a16-g128", ("w4a16-g128", {})),
        ("integer(width=4, scale=float)", ("integer", {"width": 4, "scale": "float"})),
        ('integer(scale = "float",frac_width=-2)', ("integer", {"scale": "float", "frac_width": -2})),
        ("nvfp4(block_size=[16, 16], rounding=nearest_even)", ("nvfp4", {"block_size": [16, 16]})),
        ("ternary(scaling=false, threshold=0.5)", ("ternary", {"scaling": False, "threshold": 0.5})),
        ("minifloat_ieee(exponent_bias=none)", ("minifloat_ieee", {"exponent_bias": None})),
    ],
)
def test_a_format_is_a_name_and_parameters_in_brackets(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    name, given = read_spelling(text)
    assert (name, {key: value for key, value in given.items() if key != "rounding"}) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("integer(4)", "'4' is not a parameter; write 'name=value'"),
        ("integer(width=)", "'width=' is not a parameter"),
        ("integer(width=4, width=5)", "'width' is given twice"),
        ("integer(width=4", "is not a format; write 'integer' or"),
        ("", "'' is not a format"),
    ],
)
def test_a_text_that_is_not_a_format_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_spelling(text)
