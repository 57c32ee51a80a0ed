"""Storage of tensors, counted by hand: elements and the scales they share."""

from __future__ import annotations

import pytest
import torch

from chop.formats import Format
from chop.formats.binary import Binary
from chop.formats.block_fp import BlockFP
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP
from chop.formats.nvfp4 import NVFP4


@pytest.mark.parametrize(
    ("number_format", "shape", "expected"),
    [
        (MXFP("e2m1"), (8, 8), 8 * 8 * 4 + 8 * 8),  # a block per row of 8, not one per 32 elements
        (MXFP("e2m1"), (2, 40), 2 * 40 * 4 + 4 * 8),  # each row is a block of 32 and one of 8
        (MXFP("e2m1", block_dim=0), (40, 2), 2 * 40 * 4 + 4 * 8),
        (MXFP("e2m1"), (), 4 + 8),
        (MXFP("e2m1"), (0, 8), 0),
        (BlockFP(width=8, block_size=(2, 3)), (4, 5), 20 * 8 + 4 * 8),  # tiles: 2 x 2
        (BlockFP(width=8, exponent_width=5, block_size=16, block_dim=1), (4, 20, 3, 3), 720 * 8 + 4 * 2 * 9 * 5),
        (NVFP4(), (3, 16), 48 * 4 + 3 * 8),
        (Integer(8), (4, 5), 160),
        (Integer(8, scale="float"), (4, 5), 160),  # a scale of the whole tensor is not counted
        (Integer(8, scale="float", granularity="channel", channel_dim=0), (4, 5), 160 + 4 * 32),
        (Integer(8, granularity="channel", channel_dim=0), (4, 5), 160 + 4 * 8),
        (Integer(8, scale="float", granularity="row"), (2, 3, 5), 240 + 6 * 32),
        (Integer(4, scale="float", granularity="group", group_size=4), (2, 5), 40 + 4 * 32),
        (FP8(scale="float", granularity="row"), (2, 3, 5), 240 + 6 * 32),
        (Binary(channel_dim=0), (4, 5), 20 + 4 * 32),
        (Binary(scaling=False, channel_dim=0), (4, 5), 20),
    ],
)
def test_scales_are_counted_as_they_are_laid_out(
    number_format: Format, shape: tuple[int, ...], expected: int
) -> None:
    assert number_format.storage_bits(shape) == expected
    _, scales = number_format.encode(torch.randn(shape))
    if number_format.scale_bits(shape):  # as many as `encode` returns
        assert number_format.scale_bits(shape) % scales[0].numel() == 0
