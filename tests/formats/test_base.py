"""Checks of parameters."""

from __future__ import annotations

import pytest

from chop.formats.block_fp import BlockFP
from chop.formats.float import Float
from chop.formats.integer import Integer
from chop.formats.minifloat_ieee import MinifloatIEEE
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
