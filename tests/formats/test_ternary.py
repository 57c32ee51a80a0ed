"""`ternary` compared with values computed by hand from its definition."""

from __future__ import annotations

import torch

from chop.formats.ternary import Ternary


def test_ternary_zeroes_small_values_and_scales_by_the_mean_of_the_others() -> None:
    # mean magnitude 1.1, threshold 0.77: 0.1 becomes 0, 1, 3 and 1.1 are kept
    x = torch.tensor([0.1, -1.0, 3.0, 0.3])
    assert Ternary().quantize(x).tolist() == [0.0, -2.0, 2.0, 0.0]
    assert Ternary(scaling=False).quantize(x).tolist() == [0.0, -1.0, 1.0, 0.0]
