"""Effective bit operations, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.cost import bitops, in_formats
from chop.cost.used_bits import enclosed_bits
from chop.formats import Format
from chop.formats.binary import Binary
from chop.formats.block_fp import BlockFP
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.log import Log
from chop.formats.mixed_integer import MixedInteger
from chop.formats.ternary import Ternary
from chop.ir import NodeMeta
from chop.passes.graph import prune_transform_pass, quantize_transform_pass
from samples import annotated

WEIGHTS = (0.0, 0.5, 0.6875, -0.375)
"""In sixteenths 0, 8 = 0b1000, 11 = 0b1011 and 6 = 0b110: 0, 1, 4 and 2 bits."""


def linear(weights: tuple[float, ...] = WEIGHTS, **formats: Format) -> NodeMeta:
    """A layer with one output, on three rows: each weight is in three products."""
    layer = nn.Linear(len(weights), 1, bias=False)
    layer.weight.data = torch.tensor([weights])
    meta = annotated(nn.Sequential(layer), input=torch.randn(3, len(weights))).annotated_metas()[1]
    return in_formats(meta, formats)


def test_bits_from_the_highest_to_the_lowest_set_bit() -> None:
    integers = torch.arange(-2000, 2001)
    expected = [len(bin(abs(i))[2:].strip("0")) for i in range(-2000, 2001)]
    assert enclosed_bits(integers).tolist() == expected
    assert enclosed_bits(torch.tensor([2**31 - 1, -(2**31), 2**40 + 1])).tolist() == [31, 1, 41]


def test_a_weight_counts_its_set_bits_and_data_all_but_the_sign() -> None:
    fixed = Integer(8, 4)
    assert bitops(linear(data_in_0=fixed, weight=fixed), "ebops") == 3 * 7 * (0 + 1 + 4 + 2)
    unsigned = Integer(8, 4, is_signed=False)
    assert bitops(linear(data_in_0=unsigned, weight=fixed), "ebops") == 3 * 8 * 7
    assert bitops(linear(data_in_0=Integer(4, 2), weight=fixed), "ebops") == 3 * 3 * 7


def test_fewer_fraction_bits_use_fewer_bits() -> None:
    # In quarters: 0, 2, 3 (2.75 rounded) and -2 (-1.5 to even): 0, 1, 2 and 1 bits.
    assert bitops(linear(data_in_0=Integer(8, 4), weight=Integer(8, 2)), "ebops") == 3 * 7 * 4


def test_a_format_of_signs_uses_one_bit() -> None:
    assert bitops(linear(data_in_0=Integer(8, 4), weight=Binary()), "ebops") == 3 * 7 * 4
    assert bitops(linear(data_in_0=Binary(), weight=Binary()), "ebops") == 3 * 4
    # The mean magnitude is 0.390625; 0.7 of it is 0.27: only the 0 is 0.
    assert bitops(linear(data_in_0=Integer(8, 4), weight=Ternary()), "ebops") == 3 * 7 * 3


def test_floats_count_the_significand_of_weights() -> None:
    # 0, 1, 0b1011 and 0b11, each times a power of two.
    assert bitops(linear(), "ebops") == 3 * 31 * (0 + 1 + 4 + 2)
    assert bitops(linear(data_in_0=FP8(), weight=FP8()), "ebops") == 3 * 7 * (0 + 1 + 4 + 2)
    # 1/3 in binary is 0.0101...: 24 bits of a float32 end in a 1, 4 of e4m3 are 0b1011.
    assert bitops(linear((1 / 3,)), "ebops") == 3 * 31 * 24
    assert bitops(linear((1 / 3,), weight=FP8()), "ebops") == 3 * 31 * 4
    # Powers of two are shifts.
    assert bitops(linear((0.3, 0.7, 0.0), data_in_0=Integer(8, 4), weight=Log()), "ebops") == 3 * 7 * (1 + 1 + 0)


def test_shared_exponents_do_not_count() -> None:
    # The largest is 0.6875: steps of 2^-1 x 2^-6; 32, 44 and 24 of them: 1, 4 (0b1011) and 2 bits.
    in_blocks = BlockFP(width=8, exponent_width=8, block_size=4)
    assert bitops(linear(data_in_0=in_blocks, weight=in_blocks), "ebops") == 3 * 7 * 7


def test_a_step_per_channel() -> None:
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.tensor([[7.0, 3.0], [0.4375, 0.0625]])
    meta = annotated(nn.Sequential(layer), input=torch.randn(3, 2)).annotated_metas()[1]
    by_channel = Integer(4, granularity="channel")
    # Steps of 1 and of 1/16: 7, 3, 7 and 1 of them. With one step for all, the second row would be 0.
    assert bitops(in_formats(meta, {"data_in_0": Integer(8, 4), "weight": by_channel}), "ebops") == 3 * 7 * (
        3 + 2 + 3 + 1
    )


def test_a_learned_scale_determines_the_integers() -> None:
    model = nn.Sequential(nn.Linear(4, 1, bias=False))
    model[0].weight.data = torch.tensor([[1.0, 0.5, -1.5, 0.0]])
    graph = annotated(model, input=torch.randn(3, 4))
    config: dict[str, Any] = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 4}
    config |= {"weight_scale": "learned"}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    meta = graph.annotated_metas()[1]
    assert meta.module is not None
    meta.module.get_parameter("weight_scale").data.fill_(0.5)
    # In halves: 2, 1, -3 and 0.
    assert bitops(meta, "ebops") == 3 * 7 * (1 + 1 + 2 + 0)


@pytest.mark.parametrize("prune_first", [True, False])
def test_pruned_weights_use_no_bits_but_keep_their_width(prune_first: bool) -> None:
    layer = nn.Linear(4, 1, bias=False)
    layer.weight.data = torch.tensor([WEIGHTS])
    graph = annotated(nn.Sequential(layer), input=torch.randn(3, 4))
    config: dict[str, Any] = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "bias_name": "float"}
    if prune_first:
        graph, _ = prune_transform_pass(graph, {"sparsity": 0.5})
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    if not prune_first:
        graph, _ = prune_transform_pass(graph, {"sparsity": 0.5})
    meta = graph.annotated_metas()[1]
    # 0 and -0.375 are pruned; 0b1000 and 0b1011 use 1 and 4 bits, times 7 bits of data, on three rows.
    assert bitops(meta, "ebops") == 3 * 7 * (1 + 4)
    # The other conventions multiply by every weight: 4 products of 8 x 8 bits per row.
    assert bitops(meta, "bops") == 3 * 4 * 64


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([WEIGHTS]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weight) + x @ x.transpose(0, 1)[:, :1]


def test_weights_of_functions_count_like_those_of_layers() -> None:
    fixed = Integer(8, 4)
    metas = annotated(Functional(), x=torch.randn(3, 4)).annotated_metas()
    by_op = {meta.mase_op: meta for meta in metas}
    assert bitops(in_formats(by_op["linear"], {"data_in_0": fixed, "weight": fixed}), "ebops") == 3 * 7 * 7
    product = in_formats(by_op["matmul"], {"data_in_0": fixed, "data_in_1": Integer(4, 2)})
    assert bitops(product, "ebops") == 3 * 4 * 7 * 3


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(groups: int) -> None:
    layer = nn.Conv2d(2, 2, 1, groups=groups, bias=False)
    layer.weight.data = torch.tensor(WEIGHTS if groups == 1 else WEIGHTS[1:3]).reshape(layer.weight.shape)
    meta = annotated(nn.Sequential(layer), input=torch.randn(1, 2, 3, 5)).annotated_metas()[1]
    fixed = Integer(8, 4)
    used = 0 + 1 + 4 + 2 if groups == 1 else 1 + 4
    assert bitops(in_formats(meta, {"data_in_0": fixed, "weight": fixed}), "ebops") == 15 * 7 * used


def test_each_product_counts_the_bits_of_its_own_factors() -> None:
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.tensor([[0.6875, 0.375], [0.5, 3.0]])
    meta = annotated(nn.Sequential(layer), input=torch.randn(3, 2)).annotated_metas()[1]
    # In steps of 1/16, 1/8, 1/2 and 0 bits: 11, 3, 1 and 0, which use 4, 2, 1 and 0 bits.
    weight = MixedInteger((8, 8, 8, 0), (4, 3, 1, 0), shape=(2, 2))
    data = MixedInteger((6, 3), (4, 1), shape=(2,))
    of_one_row = 5 * 4 + 2 * 2 + 5 * 1 + 2 * 0
    assert bitops(in_formats(meta, {"data_in_0": data, "weight": weight}), "ebops") == 3 * of_one_row
    assert bitops(in_formats(meta, {"data_in_0": Integer(6, 4), "weight": weight}), "ebops") == 3 * 5 * 7


def test_each_channel_of_a_grouped_convolution_counts_its_own_bits() -> None:
    layer = nn.Conv1d(2, 2, 1, groups=2, bias=False)
    layer.weight.data = torch.tensor([[[0.6875]], [[0.5]]])
    meta = annotated(nn.Sequential(layer), input=torch.randn(1, 2, 5)).annotated_metas()[1]
    data = MixedInteger((6, 3), (4, 1), shape=(2, 1), is_signed=False)
    assert bitops(in_formats(meta, {"data_in_0": data, "weight": Integer(8, 4)}), "ebops") == 5 * (6 * 4 + 3 * 1)
