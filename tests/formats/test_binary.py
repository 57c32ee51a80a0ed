"""`binary` compared with values computed by hand from its definition."""

from __future__ import annotations

import math

import torch

from chop.formats.binary import Binary


def test_binary_scales_by_the_mean_magnitude_of_each_channel_of_weights() -> None:
    x = torch.tensor([[1.0, -3.0], [0.0, 0.5]])
    assert Binary().quantize(x).tolist() == [[1.125, -1.125], [1.125, 1.125]]
    assert Binary().for_operand(-1, 0).quantize(x).tolist() == [[2.0, -2.0], [0.25, 0.25]]
    assert Binary(scaling=False).quantize(x).tolist() == [[1.0, -1.0], [1.0, 1.0]]


def test_stochastic_binary_is_positive_with_probability_of_the_hard_sigmoid() -> None:
    y = Binary(scaling=False, stochastic=True).quantize(torch.full((100_000,), 0.5))
    share = (y > 0).double().mean().item()
    assert abs(share - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 100_000)
