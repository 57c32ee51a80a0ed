"""Quantised layers."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor, nn

from chop import nn as chop_nn
from chop.formats.float import Float
from chop.formats.integer import Integer
from chop.nn.quantized import QuantizedLayer, quantize_layer
from chop.passes.graph import quantize_transform_pass
from samples import LAB_PASS_ARGS, tiny_graph

FORMATS = {"data_in_0": Integer(8, 4), "weight": Integer(8, 4), "bias": Integer(8, 4)}


def test_the_output_equals_the_plain_layer_on_rounded_operands() -> None:
    plain, x = nn.Linear(16, 5), torch.randn(8, 16)
    layer = quantize_layer(plain, FORMATS, "Integer")

    def rounded(t: Tensor) -> Tensor:
        return (t * 16).round().clamp(-128, 127) / 16

    expected = nn.functional.linear(rounded(x), rounded(plain.weight), rounded(plain.bias))
    assert layer(x).equal(expected)


def test_weights_integers_and_scale() -> None:
    plain = nn.Linear(2, 1)
    plain.weight.data = torch.tensor([[0.3, -9.0]])
    layer = quantize_layer(plain, FORMATS, "Integer")
    integers, scale = layer.integers("weight")
    assert integers.tolist() == [[5, -128]]
    assert scale == 1 / 16
    quantized = layer.quantized("weight")
    assert quantized is not None
    assert quantized.tolist() == [[0.3125, -8.0]]
    assert layer.get_parameter("weight").equal(plain.weight)  # the parameter itself stays float


def test_a_layer_without_bias_has_none() -> None:
    layer = quantize_layer(nn.Linear(2, 1, bias=False), FORMATS, "Integer")
    assert layer.quantized("bias") is None
    with pytest.raises(ValueError, match="LinearInteger has no quantised 'bias'"):
        layer.integers("bias")
    with pytest.raises(ValueError, match="has no parameter 'wieght'; did you mean 'weight'"):
        layer.quantized("wieght")


def test_float_has_no_integers() -> None:
    layer = quantize_layer(nn.Linear(2, 1), {"weight": Float()}, "Float")
    with pytest.raises(ValueError, match="format 'float' does not represent its values as integers"):
        layer.integers("weight")


def test_parameters_are_shared_and_trained_through() -> None:
    plain = nn.Linear(16, 5)
    layer = quantize_layer(plain, FORMATS, "Integer")
    assert layer.weight is plain.weight
    layer(torch.randn(8, 16)).square().sum().backward()
    assert plain.weight.grad is not None
    assert plain.weight.grad.abs().sum() > 0


def test_quantising_again_starts_from_the_plain_layer() -> None:
    once = quantize_layer(nn.Linear(16, 5), FORMATS, "Integer")
    twice = quantize_layer(once, {"weight": Integer(4, 2)}, "Integer")
    assert type(twice) is type(once)
    assert twice.base_class is nn.Linear
    assert twice.formats == {"weight": Integer(4, 2)}
    assert once.formats == FORMATS


def test_hooks_mode_and_attributes_are_kept() -> None:
    plain = nn.BatchNorm1d(4, eps=0.5, momentum=0.3).eval()
    seen: list[int] = []
    plain.register_forward_hook(lambda *_: seen.append(1))
    layer = quantize_layer(plain, {"data_in_0": Float()}, "Float")
    layer(torch.randn(2, 4))
    assert repr(layer).startswith("BatchNorm1dFloat(4, eps=0.5, momentum=0.3")
    assert (layer.training, seen) == (False, [1])


def test_classes_can_be_imported_by_name() -> None:
    from chop.nn.quantized import Conv2dBlockFP, LinearInteger

    assert issubclass(LinearInteger, QuantizedLayer | nn.Linear)
    assert LinearInteger is type(quantize_layer(nn.Linear(1, 1), FORMATS, "Integer"))
    assert Conv2dBlockFP.__name__ == "Conv2dBlockFP"
    with pytest.raises(AttributeError, match="LinearIntegr"):
        _ = chop_nn.quantized.LinearIntegr


class MyLinear(nn.Linear):
    """A user's subclass that inherits forward."""


class Doubled(nn.Linear):
    """A user's subclass that overrides forward."""

    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def test_a_users_subclass_keeps_its_name_through_pickle() -> None:
    layer = quantize_layer(MyLinear(3, 2), FORMATS, "Integer")
    again = pickle.loads(pickle.dumps(layer))
    assert type(again).__name__ == "MyLinearInteger"
    assert again.formats == FORMATS


def test_a_subclass_that_overrides_forward_is_not_the_op() -> None:
    from chop.ops import op_of_module

    assert op_of_module(MyLinear) is op_of_module(nn.Linear)
    assert op_of_module(Doubled) is None


def test_the_layer_shows_its_formats() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    shown = repr(graph.modules["seq_blocks.2"])
    assert shown == (
        "LinearInteger(in_features=16, out_features=5, bias=True, "
        "data_in_0=integer(8, 4), weight=integer(8, 4), bias=integer(8, 4))"
    )
