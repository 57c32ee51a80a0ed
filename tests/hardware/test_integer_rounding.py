"""Rounded division by powers of two, against the decimal module."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import get_args

import numpy as np
import pytest
import torch

from chop.formats.parts.rounding import round_
from chop.hardware.program.signal import ExactRounding, exact_rounding, shift_right

DECIMAL = {
    "nearest_even": ROUND_HALF_EVEN,
    "nearest_away": ROUND_HALF_UP,  # in the decimal module, up is away from 0
    "floor": ROUND_FLOOR,
    "towards_zero": ROUND_DOWN,
}


@pytest.mark.parametrize("rounding", get_args(ExactRounding))
@pytest.mark.parametrize("shift", range(6))
def test_shift_right_rounds_like_decimal_and_torch_for_every_integer(rounding: ExactRounding, shift: int) -> None:
    a = np.arange(-300, 301, dtype=np.int64)
    found = shift_right(a, shift, rounding)
    exact = [int((Decimal(int(x)) / 2**shift).to_integral_value(DECIMAL[rounding])) for x in a]
    assert found.tolist() == exact
    assert found.tolist() == round_(torch.from_numpy(a / 2**shift), rounding).long().tolist()


def test_a_negative_shift_multiplies() -> None:
    assert shift_right(np.array([-3, 0, 5]), -2, "nearest_even").tolist() == [-12, 0, 20]


def test_random_rounding_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"node 'a': rounding 'stochastic' cannot be repeated in hardware; use one of"
    ):
        exact_rounding("stochastic", "node 'a'")
