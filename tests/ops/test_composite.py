"""Composite layers: counted by hand, and compared with torch's counter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from chop.cost import bitops, count, parameters, weight_bits
from chop.ir import NodeMeta
from chop.ops import op_of_module
from samples import annotated


class Attention(nn.Module):
    def __init__(self, need_weights: bool = True, by_name: bool = False, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, **options)
        self.need_weights = need_weights
        self.by_name = by_name

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.by_name:
            return self.attention(query=q, key=k, value=v)[0]  # type: ignore[no-any-return]
        return self.attention(q, k, v, need_weights=self.need_weights)[0]  # type: ignore[no-any-return]


def attention(model: nn.Module, batch_first: bool = True) -> NodeMeta:
    """Return two sequences with 3 queries and 5 keys each."""
    shapes = [(2, 3, 8), (2, 5, 6), (2, 5, 4)]
    q, k, v = (torch.randn(s) if batch_first else torch.randn(s).transpose(0, 1) for s in shapes)
    return annotated(model, q=q, k=k, v=v).annotated_metas()[3]


# Queries and results 2 x 3 rows of 8 x 8, keys 2 x 5 rows of 8 x 6, values 2 x 5 rows of 8 x 4.
PROJECTIONS = 2 * (6 * 64) + 10 * 48 + 10 * 32
# 2 x 2 heads x 3 queries x 5 keys = 60 scores of 4 products, and 4 products with the values of each.
SCORES = 60


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(batch_first: bool) -> None:
    found = count(attention(Attention(batch_first=batch_first), batch_first))
    assert found is not None
    assert found.macs == PROJECTIONS + SCORES * 8 == 2048
    # Scaled, exponential, division; the mean over 2 heads of 30 probabilities.
    assert (found.multiplies, found.adds) == (3 * SCORES + 30, (SCORES - 12) + 60)


def test_without_probabilities_there_is_no_mean_of_them() -> None:
    found = count(attention(Attention(need_weights=False, batch_first=True)))
    assert found is not None
    assert (found.macs, found.multiplies, found.adds) == (2048, 3 * SCORES, SCORES - 12)


def test_added_keys_are_attended_to_but_not_projected() -> None:
    found = count(attention(Attention(batch_first=True, add_bias_kv=True, add_zero_attn=True)))
    assert found is not None
    assert found.macs == PROJECTIONS + 2 * 2 * 3 * 7 * 8


def test_two_per_mac_agrees_with_the_counter_of_torch() -> None:
    model = Attention(batch_first=True)
    with FlopCounterMode(display=False) as reference:
        model(torch.randn(2, 3, 8), torch.randn(2, 5, 6), torch.randn(2, 5, 4))
    assert reference.get_total_flops() == 2 * 2048


def test_one_sequence_alone() -> None:
    model = nn.MultiheadAttention(8, 2)
    graph = annotated(Alone(model), x=torch.randn(5, 8))
    found = count(graph.annotated_metas()[1])
    assert found is not None
    assert found.macs == 4 * 5 * 64 + 2 * (5 * 5 * 8)


class Alone(nn.Module):
    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]  # type: ignore[no-any-return]


def test_bit_operations_are_those_of_floats() -> None:
    meta = attention(Attention(batch_first=True))
    assert bitops(meta, "bops") == 2048 * 32 * 32


def test_effective_bit_operations_use_the_weights() -> None:
    model = Attention(batch_first=True)
    for parameter in model.parameters():
        nn.init.ones_(parameter)  # one used bit
    assert bitops(attention(model), "ebops") == PROJECTIONS * 31 * 1 + SCORES * 8 * 31 * 31


def test_its_parameters_are_counted() -> None:
    meta = attention(Attention(batch_first=True))
    expected = 64 + 48 + 32 + 24 + 64 + 8  # three projections with 24 biases, and the last
    assert (parameters(meta), weight_bits(meta)) == (expected, 32 * expected)


def test_keyword_arguments_are_found_by_their_names() -> None:
    found = count(attention(Attention(batch_first=True, by_name=True)))
    assert found is not None
    assert found.macs == 2048


def test_a_subclass_that_overrides_forward_is_unknown() -> None:
    class Own(nn.MultiheadAttention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **kwargs)

    assert op_of_module(Own) is None
