"""The cache of rounded weights in evaluation mode."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from chop.formats.integer import Integer
from chop.nn.quantized import QuantizedLayer, quantize_layer

FORMATS = {"data_in_0": Integer(8, 4), "weight": Integer(8, 4), "bias": Integer(8, 4)}


class Counter:
    """Counts how often parameters of a layer are rounded."""

    def __init__(self, layer: QuantizedLayer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        parameters = {p.data_ptr() for p in layer.parameters()}
        original = Integer.quantize

        def quantize(number_format: Integer, x: Tensor, scale: Tensor | None = None) -> Tensor:
            self.count += x.data_ptr() in parameters
            return original(number_format, x, scale)

        monkeypatch.setattr(Integer, "quantize", quantize)


@pytest.fixture
def layer() -> QuantizedLayer:
    return quantize_layer(nn.Linear(4, 3), FORMATS, "Integer").eval()


def fresh(layer: QuantizedLayer, x: Tensor) -> Tensor:
    """Return the expected result, computed without the cache."""
    weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
    rounded = [(t * 16).round().clamp(-128, 127) / 16 for t in (x, weight, bias)]
    return nn.functional.linear(*rounded)


def test_an_unchanged_weight_is_never_rounded_again(layer: QuantizedLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    counter, x = Counter(layer, monkeypatch), torch.randn(2, 4)
    for _ in range(5):
        layer(x)
        with torch.no_grad():
            layer(x)
    assert counter.count == 2  # weight and bias, once each


def test_training_rounds_in_each_call(layer: QuantizedLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(layer, monkeypatch)
    layer.train()
    for _ in range(3):
        layer(torch.randn(2, 4))
    assert counter.count == 6
    assert "_cache" not in layer.__dict__


def test_every_change_of_a_weight_is_noticed(layer: QuantizedLayer) -> None:
    x, weight = torch.randn(2, 4), layer.get_parameter("weight")
    layer(x)
    with torch.no_grad():
        weight.mul_(2)
    assert layer(x).equal(fresh(layer, x))
    layer.load_state_dict({key: torch.randn_like(value) for key, value in layer.state_dict().items()})
    assert layer(x).equal(fresh(layer, x))
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0)
    layer(x).sum().backward()
    optimiser.step()
    assert layer(x).equal(fresh(layer, x))
    weight.data = torch.randn(3, 4)
    assert layer(x).equal(fresh(layer, x))
    layer.formats["weight"] = Integer(4, 1)
    quantized = layer.quantized("weight")
    assert quantized is not None
    assert quantized.equal((weight * 2).round().clamp(-8, 7) / 2)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("mode", [False, True])
def test_steps_of_fused_optimizers_are_noticed(layer: QuantizedLayer, fused: bool, mode: bool) -> None:
    x = torch.randn(2, 4)
    layer(x)
    optimiser = torch.optim.Adam(layer.parameters(), lr=1.0, fused=fused)
    for _ in range(2):
        layer.train(mode)
        layer(x).square().sum().backward()
        optimiser.step()
        layer.eval()
        assert layer(x).equal(fresh(layer, x))


def test_forget_drops_the_cached_weights(layer: QuantizedLayer) -> None:
    x = torch.randn(2, 4)
    layer(x)
    layer.get_parameter("weight").data.mul_(3)
    layer.forget()
    assert layer(x).equal(fresh(layer, x))


def test_changes_of_dtype_are_noticed(layer: QuantizedLayer) -> None:
    x = torch.randn(2, 4)
    layer(x)
    layer.double()
    assert layer(x.double()).dtype == torch.float64
    assert layer(x.double()).equal(fresh(layer, x.double()))


def test_gradients_flow_in_evaluation_too(layer: QuantizedLayer) -> None:
    for _ in range(2):
        layer.zero_grad()
        layer(torch.ones(2, 4)).sum().backward()
        gradient = layer.get_parameter("weight").grad
        assert gradient is not None
        assert gradient.equal(torch.full((3, 4), 2.0))


def test_the_cache_can_be_disabled(layer: QuantizedLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    layer.cache_weights = False
    counter = Counter(layer, monkeypatch)
    layer(torch.randn(2, 4))
    layer(torch.randn(2, 4))
    assert counter.count == 4
    assert "_cache" not in layer.__dict__


def test_copies_and_pickles_leave_the_cache_out(layer: QuantizedLayer) -> None:
    x = torch.randn(2, 4)
    expected = layer(x)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert "_cache" not in again.__dict__
        assert again(x).equal(expected)


def test_inference_mode_works(layer: QuantizedLayer) -> None:
    x = torch.randn(2, 4)
    expected = layer(x)
    with torch.inference_mode():
        assert layer(x).equal(expected)
    assert layer(x).equal(expected)


def test_a_change_of_dtype_and_back_is_noticed() -> None:
    layer = quantize_layer(nn.Linear(300, 300), {"weight": Integer(8, 12)}, "Integer").eval()
    x = torch.randn(2, 300)
    for _ in range(5):
        layer(x)
        layer.to(torch.bfloat16)
        layer.to(torch.float32)
        weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
        expected = nn.functional.linear(x, Integer(8, 12).quantize(weight), bias)
        assert layer(x).equal(expected)


def test_a_new_fixed_scale_is_used_and_loaded() -> None:
    layer = quantize_layer(nn.Linear(4, 3), {"weight": Integer(8, scale="float")}, "Integer").eval()
    for scale in (0.5, 0.25):
        layer.fix_scale("weight", scale)
        rounded = layer.quantized("weight")
        assert rounded is not None
        assert rounded.equal((layer.get_parameter("weight") / scale).round() * scale)
    other = quantize_layer(nn.Linear(4, 3), {"weight": Integer(8, scale="float")}, "Integer")
    other.load_state_dict(layer.state_dict())
    assert other.get_buffer("weight_scale") == 0.25


def test_learned_scales_have_gradients_in_evaluation_too() -> None:
    layer = quantize_layer(nn.Linear(4, 3), {"weight": Integer(4, scale="learned")}, "Integer").eval()
    layer(torch.randn(2, 4)).sum().backward()
    assert layer.get_parameter("weight_scale").grad is not None


def test_random_rounding_stays_random() -> None:
    layer = quantize_layer(nn.Linear(64, 64), {"weight": Integer(4, 3, rounding="stochastic")}, "Integer").eval()
    x = torch.randn(2, 64)
    assert not layer(x).equal(layer(x))


def test_the_scale_of_the_result_is_learned_too() -> None:
    layer = quantize_layer(nn.Linear(4, 3), {"data_out_0": Integer(4, scale="learned")}, "Integer")
    layer(torch.randn(2, 4)).sum().backward()
    assert layer.get_parameter("data_out_scale").grad is not None


def test_weights_that_were_rounded_in_inference_mode_are_not_kept_for_a_backward_pass(
    layer: QuantizedLayer,
) -> None:
    x = torch.randn(2, 4)
    with torch.inference_mode():
        layer(x)
    y = x.clone().requires_grad_()
    layer(y).sum().backward()
    assert y.grad is not None
    assert y.grad.shape == x.shape
