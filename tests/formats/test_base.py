"""Checks of parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chop.formats import Format
from chop.formats.binary import Binary
from chop.formats.block_fp import BlockFP
from chop.formats.float import Float
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP
from chop.formats.minifloat import MinifloatIEEE
from chop.formats.mixed_integer import MixedInteger
from chop.formats.ternary import Ternary


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integer(width=0), "width must be from 1 to 32, got 0"),
        (lambda: Float(width=2**63), f"width must be from 1 to 64, got {2**63}"),
        (lambda: Integer(frac_width=200), "frac_width must be from -96 to 126, got 200"),
        (lambda: MinifloatIEEE(width=4, exponent_width=4), "exponent_width must be from 1 to 3, got 4"),
        (lambda: BlockFP(block_size=0), "block_size must be a positive integer or a list of them, got 0"),
        (lambda: Ternary(threshold=-1), "threshold must be at least 0, got -1"),
    ],
)
def test_invalid_parameters_are_rejected(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("number_format", "text"),
    [
        (Integer(8, 4), "integer(8, 4)"),
        (Integer(8, is_signed=False, scale="float"), "integer(8, is_signed=False, scale=float)"),
        (
            Integer(4, scale="float", granularity="group", group_size=64),
            "integer(4, scale=float, granularity=group, group_size=64)",
        ),
        (Integer(8, "auto"), "integer(8, 4, frac_width=auto)"),
        (MXFP("e3m2"), "mxfp(6, 32, element=e3m2)"),
        (Binary(scaling=False, channel_dim=0), "binary(1, scaling=False)"),
        (replace(BlockFP(6), block_size=(1, 16)), "block_fp(6, 8, 127, block_size=(1, 16))"),
        (MixedInteger(is_signed=False), "mixed_integer(8, 4, is_signed=False)"),
        (
            MixedInteger((2, 4), (0, 1), (2,), is_signed=False),
            "mixed_integer(2 to 4 bits, mean 3, is_signed=False)",
        ),
    ],
)
def test_text_shows_the_numbers_and_what_is_not_the_default(number_format: Format, text: str) -> None:
    assert str(number_format) == text
