"""Powers of two with a shared bias: the smallest powers."""

from __future__ import annotations

import torch

from chop.formats.log import BlockLog


def test_numbers_below_half_of_the_smallest_power_become_zero() -> None:
    # Powers from 2**124 down to 2**-2; half of the smallest is 0.125.
    below = torch.nextafter(torch.tensor(0.125), torch.tensor(0.0))
    x = torch.tensor([2.0**124, 0.125, below])
    assert BlockLog(rounding="nearest_away").quantize(x).tolist() == [2.0**124, 0.25, 0.0]
    assert BlockLog().quantize(x).tolist() == [2.0**124, 0.0, 0.0]  # the tie goes to the even code
    assert BlockLog(rounding="floor").quantize(-x).tolist() == [-(2.0**124), -0.25, -0.25]
