"""`block_fp` compared with values computed by hand from its definition."""

from __future__ import annotations

import pytest
import torch

from chop.formats.block_fp import BlockFP

pytestmark = pytest.mark.usefixtures("loops")


def test_block_fp_shares_the_exponent_of_the_largest() -> None:
    # width 4: |k| <= 7. Largest 1.9 -> e = 1, step 2**(1 - 3) = 0.25; 1.9 / 0.25 = 7.6 -> 8 -> clamped to 7
    x = torch.tensor([1.9, 0.3, -0.125, 0.38])
    assert BlockFP(width=4, block_size=4).quantize(x).tolist() == [1.75, 0.25, 0.0, 0.5]


def test_block_fp_blocks_are_independent_and_the_last_one_may_be_short() -> None:
    x = torch.tensor([100.0, 1.0, 0.01, 0.02, 3.0])
    y = BlockFP(width=4, block_size=2).quantize(x)
    assert y.tolist() == [96.0, 0.0, 0.01171875, 0.01953125, 3.0]


def test_block_fp_runs_along_the_dimension_of_the_operand() -> None:
    x = torch.tensor([[100.0, 1.0], [0.1, 0.01]])
    along_columns = BlockFP(width=4, block_size=2).for_operand(0, None).quantize(x)
    assert along_columns.t().equal(BlockFP(width=4, block_size=2).quantize(x.t()))
    assert along_columns[1, 1] == 0.0
    assert along_columns[0, 1] == 1.0


def test_block_fp_tiles() -> None:
    x = torch.ones(2, 4)
    x[0, 0] = 100.0
    y = BlockFP(width=4, block_size=(2, 2)).quantize(x)
    assert y.tolist() == [[96.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    assert BlockFP(width=4, block_size=(1, 2)).bits == 4 + 8 / 2


def test_block_fp_exponent_is_clamped_to_its_bits() -> None:
    # two exponent bits, bias 1: e is -1 .. 2, so the largest value is 4 * (7 / 8)
    narrow = BlockFP(width=4, exponent_width=2, block_size=1)
    assert narrow.quantize(torch.tensor([100.0, 0.01, 0.2])).tolist() == [3.5, 0.0, 0.1875]
