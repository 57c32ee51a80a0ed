"""Composite layers: counted by hand, and compared with torch's counter."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from chop.cost import bitops, count, parameters, weight_bits
from chop.ir import NodeMeta
from chop.ops import Count, op_of_module
from chop.passes.graph import quantize_transform_pass
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


class First(nn.Module):
    """A layer with one or two inputs, and the first of its results."""

    def __init__(self, layer: nn.Module, several: bool) -> None:
        super().__init__()
        self.layer = layer
        self.several = several

    def forward(self, x: Tensor, y: Tensor) -> Any:
        if isinstance(self.layer, nn.RNNBase | nn.LSTMCell):
            return self.layer(x)[0]
        return self.layer(x, y) if self.several else self.layer(x)


def counted(layer: nn.Module, *inputs: Tensor) -> Count:
    """Return the count of a layer, after comparing its MACs with the counter of torch."""
    model = First(copy.deepcopy(layer).eval(), len(inputs) > 1)
    x, y = (*inputs, torch.zeros(1))[:2]
    found = count(annotated(model, x=x, y=y).annotated_metas()[2])
    # For float32 and in evaluation there are fused kernels, which torch does not count.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as reference:
        model.double().train()(x.double(), y.double())
    assert found is not None
    assert 2 * found.macs == reference.get_total_flops() > 0
    assert sum(product.macs for product in found.products) == found.macs
    return found


@pytest.mark.slow
def test_recurrent_layers() -> None:
    # 5 x 2 steps. Both directions have 4 gates of 4 units, with 3 inputs and 4 states; in layer 2 with 8 inputs.
    lstm = counted(nn.LSTM(3, 4, 2, bidirectional=True), torch.randn(5, 2, 3))
    assert lstm.macs == 10 * 2 * (16 * 7 + 16 * 12)
    assert (lstm.multiplies, lstm.adds) == (3 * 10 * 16, 6 * 10 * 16)
    gru = counted(nn.GRU(3, 4, bias=False, batch_first=True), torch.randn(2, 5, 3))
    assert (gru.macs, gru.multiplies, gru.adds) == (10 * 12 * 7, 3 * 40, 5 * 40)
    rnn = counted(nn.RNN(3, 4), torch.randn(5, 3))
    assert (rnn.macs, rnn.multiplies, rnn.adds) == (5 * 4 * 7, 0, 20)


@pytest.mark.parametrize(("cell", "gates"), [(nn.LSTMCell, 4), (nn.GRUCell, 3), (nn.RNNCell, 1)])
def test_cells(cell: type[nn.Module], gates: int) -> None:
    assert counted(cell(3, 4), torch.randn(5, 3)).macs == 5 * gates * 4 * 7


# 2 sequences of 3 rows: four projections of 8 x 8, 2 heads x 9 scores x (4 + 4), and 8 x 16 forth and back.
ENCODER_LAYER = 6 * 4 * 64 + 2 * 2 * 9 * 8 + 2 * 6 * 128
# As before with 4 rows of a target, and attention to 3 rows: queries and results of 4 rows, keys and values of 3.
DECODER_LAYER = 8 * 4 * 64 + 2 * 2 * 16 * 8 + 2 * 8 * 128 + 64 * (2 * 8 + 2 * 6) + 2 * 2 * 12 * 8


@pytest.mark.slow
def test_transformer_layers() -> None:
    source, target = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    encoder_layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    decoder_layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = counted(encoder_layer, source)
    assert encoder.macs == ENCODER_LAYER
    # 36 scores: scaled, exponential, division, 24 additions. Two norms of 48 elements, two sums, 96 activations.
    assert (encoder.multiplies, encoder.adds) == (3 * 36 + 2 * 7 * 48, 24 + 2 * 48 + 96)
    assert counted(decoder_layer, target, source).macs == DECODER_LAYER
    assert counted(nn.TransformerEncoder(encoder_layer, 3), source).macs == 3 * ENCODER_LAYER
    assert counted(nn.TransformerDecoder(decoder_layer, 2), target, source).macs == 2 * DECODER_LAYER
    model = nn.Transformer(8, 2, 2, 1, 16, dropout=0.0, batch_first=True)
    assert counted(model, source, target).macs == 2 * ENCODER_LAYER + DECODER_LAYER


def test_every_parameter_of_a_composite_layer_has_a_format() -> None:
    graph = annotated(First(nn.GRU(3, 4), several=False), x=torch.randn(5, 2, 3), y=torch.zeros(1))
    config = {"name": "integer", "weight_width": 4, "bias_width": 16}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "gru": {"config": config}})
    meta = graph.annotated_metas()[2]
    assert {name: tensor.format.bits for name, tensor in meta.args.items()} == {
        "data_in_0": 8,
        "weight_ih_l0": 4,
        "weight_hh_l0": 4,
        "bias_ih_l0": 16,
        "bias_hh_l0": 16,
    }
    assert weight_bits(meta) == 4 * (12 * 3 + 12 * 4) + 16 * 24
    # Products with weights have their widths; the state is a float.
    assert bitops(meta, "bops") == 10 * (12 * 3 * 8 * 4 + 12 * 4 * 32 * 4)


def test_a_quantised_composite_layer_computes_with_rounded_inputs_and_parameters() -> None:
    gru, x = nn.GRU(3, 4), torch.randn(5, 2, 3)
    graph = annotated(First(gru, several=False), x=x, y=torch.zeros(1))
    config = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "gru": {"config": config}})
    rounded = {name: (p * 16).round() / 16 for name, p in gru.named_parameters()}
    expected, _ = torch.func.functional_call(copy.deepcopy(gru), rounded, ((x * 16).round() / 16,))
    assert graph.model(x, torch.zeros(1)).equal(expected)
    assert gru._flat_weights[0] is gru.weight_ih_l0
