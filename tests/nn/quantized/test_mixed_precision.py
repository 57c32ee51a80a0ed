"""Quantised layers in mixed precision: rounding is that of the format, whatever the dtype of the computation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph import quantize_transform_pass
from samples import annotated

OPS = ("conv2d", "linear", "matmul", "scaled_dot_product_attention")
IMAGES = torch.randn(2, 3, 5, 5)


class Ops(nn.Module):
    """A convolution, linear layers, attention and a product of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.query, self.key = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).flatten(2).transpose(1, 2)
        y = F.scaled_dot_product_attention(self.query(y), self.key(y), y)
        return torch.matmul(y.transpose(1, 2), y)


def quantised(name: str, *ops: str) -> Any:
    torch.manual_seed(0)
    config = {"config": {"name": name}}
    return quantize_transform_pass(annotated(Ops(), x=IMAGES), {"by": "type", **dict.fromkeys(ops, config)})[
        0
    ].model


def layer_of(name: str) -> QuantizedLayer:
    layer: QuantizedLayer = quantised(name, "linear").query
    return layer


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_under_autocast_a_layer_multiplies_rounded_operands_in_bfloat16(name: str, training: bool) -> None:
    layer = layer_of(name).train(training)
    formats, x = layer.formats, torch.randn(4, 16)
    weight, bias = layer.get_parameter("weight").detach(), layer.get_parameter("bias").detach()
    rounded = [formats["data_in_0"].quantize(x), formats["weight"].quantize(weight), formats["bias"].quantize(bias)]
    with torch.autocast("cpu", torch.bfloat16):
        result = layer(x)
    assert result.dtype == torch.bfloat16
    assert result.equal(F.linear(*(each.bfloat16() for each in rounded)))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_a_bfloat16_layer_multiplies_numbers_of_its_formats(name: str, training: bool) -> None:
    layer = layer_of(name).bfloat16().train(training)
    formats, x = layer.formats, torch.randn(4, 16).bfloat16()
    weight, bias = layer.get_parameter("weight").detach(), layer.get_parameter("bias").detach()
    rounded = [formats["data_in_0"].quantize(x), formats["weight"].quantize(weight), formats["bias"].quantize(bias)]
    in_float32 = formats["data_in_0"].quantize(x.float())
    torch.testing.assert_close(rounded[0].float(), in_float32, rtol=2**-8, atol=0)  # bfloat16 has 8 digits
    assert layer(x).equal(F.linear(*rounded))


@pytest.mark.parametrize("name", FORMATS)
def test_a_training_step_in_mixed_precision_has_gradients_in_the_dtype_of_the_parameters(name: str) -> None:
    in_float, mixed, narrow = quantised(name, *OPS), quantised(name, *OPS), quantised(name, *OPS).bfloat16()
    in_float(IMAGES).square().mean().backward()
    with torch.autocast("cpu", torch.bfloat16):
        loss = mixed(IMAGES).float().square().mean()
    loss.backward()
    narrow(IMAGES.bfloat16()).float().square().mean().backward()
    for model, dtype in ((mixed, torch.float32), (narrow, torch.bfloat16)):
        for parameter, reference in zip(model.parameters(), in_float.parameters(), strict=True):
            assert parameter.grad.dtype == dtype
            assert parameter.grad.isfinite().all()
            if parameter.dim() > 1:
                similarity = F.cosine_similarity(parameter.grad.float().flatten(), reference.grad.flatten(), 0)
                assert similarity > 0.9, similarity
    before = [parameter.detach().clone() for parameter in mixed.parameters()]
    torch.optim.SGD(mixed.parameters(), 0.1).step()
    assert any(not p.equal(q) for p, q in zip(mixed.parameters(), before, strict=True))


@pytest.mark.parametrize("name", ["integer", "mxfp"])
def test_a_weight_that_was_rounded_under_autocast_is_that_of_the_format_afterwards(name: str) -> None:
    layer = layer_of(name).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        layer(torch.randn(4, 16))
    weight = layer.get_parameter("weight").detach()
    kept = layer.quantized("weight")
    assert kept is not None
    assert kept.equal(layer.formats["weight"].quantize(weight))
