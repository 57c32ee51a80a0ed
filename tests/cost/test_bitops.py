"""Bit operations of single nodes, computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.cost import bitops
from chop.formats import Format
from chop.formats.block_fp import BlockFP
from chop.formats.integer import Integer
from chop.ir import MaseGraph, NodeMeta
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass


class Apply(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return self.function(a, b, c)


def annotated(model: nn.Module, **inputs: Tensor) -> list[NodeMeta]:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    return add_common_metadata_analysis_pass(graph, {"dummy_in": inputs})[0].annotated_metas()


def of_layer(layer: nn.Module, shape: tuple[int, ...], **formats: Format) -> NodeMeta:
    return with_formats(annotated(nn.Sequential(layer), input=torch.randn(shape))[1], formats)


def of_function(function: Callable[..., Tensor], shapes: list[tuple[int, ...]], **formats: Format) -> NodeMeta:
    a, b, c = (torch.randn(shape) for shape in shapes)
    metas = annotated(Apply(function), a=a, b=b, c=c)
    return with_formats(next(meta for meta in metas if meta.op is not None), formats)


def with_formats(meta: NodeMeta, formats: dict[str, Any]) -> NodeMeta:
    for name, number_format in formats.items():
        meta.args[name].format = number_format
    return meta


def integer(width: int) -> Integer:
    return Integer(width, 2)


def test_a_linear_layer_multiplies_data_and_weight_and_adds_the_bias() -> None:
    layer = nn.Linear(4, 5)  # 3 x 4 x 5 = 60 MACs
    assert bitops(of_layer(layer, (3, 4))) == 60 * (32 * 32 + 32)
    widths = {"data_in_0": integer(8), "weight": integer(4)}
    assert bitops(of_layer(layer, (3, 4), **widths, bias=integer(16))) == 60 * (8 * 4 + 16)
    assert bitops(of_layer(layer, (3, 4), **widths, bias=integer(2))) == 60 * (8 * 4 + 8)


def test_without_a_bias_the_sum_has_the_width_of_the_data() -> None:
    meta = of_layer(nn.Linear(4, 5, bias=False), (3, 4), data_in_0=integer(8), weight=integer(4))
    assert bitops(meta) == 60 * (8 * 4 + 8)


def test_bops_are_macs_times_both_widths_and_nothing_else() -> None:
    widths = {"data_in_0": integer(8), "weight": integer(4)}
    assert bitops(of_layer(nn.Linear(4, 5), (3, 4), **widths), "bops") == 60 * 8 * 4
    # 1 x 4 x 6 x 6 results of 9 products
    depthwise = of_layer(nn.Conv2d(4, 4, 3, groups=4), (1, 4, 8, 8), **widths)
    assert bitops(depthwise, "bops") == 4 * 36 * 9 * 8 * 4
    assert bitops(of_layer(nn.ReLU(), (3, 4)), "bops") == 0
    assert bitops(of_layer(nn.BatchNorm1d(4), (3, 4)), "bops") == 0


def test_additions_and_multiplications() -> None:
    assert bitops(of_layer(nn.ReLU(), (8, 16), data_in_0=integer(8))) == 128 * 8
    assert bitops(of_layer(nn.BatchNorm1d(16), (8, 16), data_in_0=integer(8))) == 512 * 64
    # A division for each of 12 results, 4 additions for each.
    assert bitops(of_layer(nn.AvgPool2d(2), (1, 3, 4, 4), data_in_0=integer(8))) == 12 * 64 + 48 * 8


def test_a_product_of_two_tensors_has_the_bits_of_both() -> None:
    shapes = [(3, 4), (3, 4), (1,)]
    widths = {"data_in_0": integer(8), "data_in_1": integer(4)}
    assert bitops(of_function(lambda a, b, c: a * b, shapes, **widths)) == 12 * 8 * 4
    assert bitops(of_function(lambda a, b, c: a + b, shapes, **widths)) == 12 * 8


def test_a_product_with_a_number_counts_as_a_square() -> None:
    shapes = [(3, 4), (1,), (1,)]
    assert bitops(of_function(lambda a, b, c: a * 2.0, shapes, data_in_0=integer(8))) == 12 * 64
    assert bitops(of_function(lambda a, b, c: 2.0 * a, shapes, data_in_1=integer(8))) == 12 * 64


@pytest.mark.parametrize("function", [torch.matmul, torch.bmm])
def test_the_second_factor_of_a_matrix_product_is_its_weight(function: Callable[..., Tensor]) -> None:
    meta = of_function(
        lambda a, b, c: function(a, b),
        [(2, 3, 4), (2, 4, 5), (1,)],
        data_in_0=integer(8),
        data_in_1=integer(4),
    )
    assert bitops(meta, "bops") == 120 * 8 * 4
    assert bitops(meta) == 120 * (8 * 4 + 8)


def test_attention_multiplies_query_with_key_and_probabilities_with_value() -> None:
    # 2 x 6 x 10 = 120 scores: of 8 products with the key, and for 4 products with the value.
    # The probabilities are as wide as the query. Scaling and softmax: 3 steps a score, 9 sums in 12 rows.
    meta = of_function(
        F.scaled_dot_product_attention,
        [(2, 6, 8), (2, 10, 8), (2, 10, 4)],
        data_in_0=integer(8),
        data_in_1=integer(4),
        data_in_2=integer(2),
    )
    assert bitops(meta, "bops") == 120 * (8 * 8 * 4 + 4 * 8 * 2)
    macs = 120 * 8 * (8 * 4 + 8) + 120 * 4 * (8 * 2 + 8)
    assert bitops(meta) == macs + 360 * 64 + 108 * 8


def test_counts_are_integers_if_possible() -> None:
    found = bitops(of_layer(nn.Linear(4, 5), (3, 4)))
    assert isinstance(found, int)
    # 8 bits and a sixteenth of 8 more: 8.5.
    in_blocks = BlockFP(width=8, exponent_width=8, block_size=16)
    assert bitops(of_layer(nn.ReLU(), (1, 3), data_in_0=in_blocks)) == 25.5
    whole = bitops(of_layer(nn.ReLU(), (1, 4), data_in_0=in_blocks))
    assert whole == 34
    assert isinstance(whole, int)


def test_unknown_ops_are_none_and_other_nodes_are_free() -> None:
    metas = annotated(Apply(lambda a, b, c: torch.sinc(a)), a=torch.ones(2), b=torch.ones(1), c=torch.ones(1))
    assert [bitops(meta) for meta in metas] == [0, 0, 0, None, 0]


def test_uniq_counts_additions_at_the_width_of_the_sum() -> None:
    widths = {"data_in_0": integer(8), "weight": integer(4)}
    # 60 MACs, 4 in each sum: 8 x 4 + 8 + 4 + 2.
    assert bitops(of_layer(nn.Linear(4, 5), (3, 4), **widths), "uniq") == 60 * 46
    # 8 x 3 x 3 results of 2 channels a group x 3 x 3 products.
    grouped = of_layer(nn.Conv2d(4, 8, 3, groups=2), (1, 4, 5, 5), **widths)
    assert bitops(grouped, "uniq") == pytest.approx(72 * 18 * (44 + math.log2(18)))
    assert bitops(of_layer(nn.ReLU(), (3, 4)), "uniq") == 0


def test_uniq_of_a_layer_of_the_paper() -> None:
    # m n k^2 (b_a b_w + b_a + b_w + log2(n k^2)) for each of 56 x 56 positions: m = n = 64, k = 3, 8 and 4 bits.
    meta = of_layer(nn.Conv2d(64, 64, 3, padding=1), (1, 64, 56, 56), data_in_0=integer(8), weight=integer(4))
    assert bitops(meta, "uniq") == pytest.approx(56 * 56 * 64 * 64 * 9 * (8 * 4 + 8 + 4 + math.log2(64 * 9)))


def test_uniq_of_attention_sums_over_the_head_and_then_over_the_keys() -> None:
    meta = of_function(
        F.scaled_dot_product_attention,
        [(2, 6, 8), (2, 10, 8), (2, 10, 4)],
        data_in_0=integer(8),
        data_in_1=integer(4),
        data_in_2=integer(2),
    )
    by_key, by_value = 120 * 8 * (8 * 4 + 8 + 4 + 3), 120 * 4 * (8 * 2 + 8 + 2 + math.log2(10))
    assert bitops(meta, "uniq") == pytest.approx(by_key + by_value)
