"""Large inputs are rounded without keeping a copy, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.nn.quantized import QuantizedLayer, quantize_layer
from chop.nn.quantized import layer as layer_module

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(8, 4), (64, 8)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3), (9, 3, 6, 6)),
    "unbatched conv2d": (lambda: nn.Conv2d(3, 4, 3), (3, 6, 6)),
    "relu": (lambda: nn.ReLU(), (64, 8)),
    "selu in place": (lambda: nn.SELU(inplace=True), (64, 8)),
    "batch_norm1d": (lambda: nn.BatchNorm1d(8), (64, 8)),
    "softmax": (lambda: nn.Softmax(0), (64, 8)),
}


def run(layer: QuantizedLayer, x: Tensor, training: bool) -> list[Tensor]:
    """The result and, in training, all gradients."""
    layer.train(training)
    if not training:
        with torch.no_grad():
            return [layer(x)]
    x = x.clone().requires_grad_()
    layer.zero_grad()
    y = layer(x)
    y.square().sum().backward()
    return [y.detach(), *(t.grad for t in (x, *layer.parameters()) if t.grad is not None)]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["integer", "mxfp", "ternary", "nvfp4"])
@pytest.mark.parametrize("kind", LAYERS)
def test_results_and_gradients_are_the_same(
    kind: str, name: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, shape = LAYERS[kind]
    number_format = FORMATS[name]()
    layer = quantize_layer(make(), {"data_in_0": number_format.placed(-1, None)}, "Any")
    x = torch.randn(shape)
    expected = run(layer, x, training)
    monkeypatch.setattr(layer_module, "_LARGE", 1)
    for got, want in zip(run(layer, x, training), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_the_rounded_copy_is_not_kept_for_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "_LARGE", 1)
    layer = quantize_layer(nn.Linear(8, 4), {"data_in_0": FORMATS["integer"]()}, "Integer")
    x = torch.randn(64, 8, requires_grad=True)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):  # type: ignore[func-returns-value]
        y = layer(x)
    y.sum().backward()
    assert 64 * 8 not in kept


def test_a_change_of_the_input_before_the_gradient_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "_LARGE", 1)
    layer = quantize_layer(nn.Linear(8, 4), {"data_in_0": FORMATS["integer"]()}, "Integer")
    x = torch.randn(64, 8)
    y = layer(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="was changed in place"):
        y.sum().backward()
