"""Large inputs are rounded without keeping a copy, with the same results."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.formats.block_fp import BlockFP
from chop.formats.integer import Integer
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
    """Return the result and, in training, all gradients."""
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
    layer = quantize_layer(make(), {"data_in_0": number_format.for_operand(-1, None)}, "Any")
    x = torch.randn(shape)
    expected = run(layer, x, training)
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", 1)
    monkeypatch.setattr(layer_module, "LARGE_IMAGES_NUMEL", 1)
    for got, want in zip(run(layer, x, training), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "limit", "num_slices"), [("linear", 2**22, 8), ("conv2d", 2**22, 1), ("conv2d", 1, 5)]
)
def test_images_are_rounded_in_slices_only_if_they_are_very_large(
    kind: str, limit: int, num_slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", 1)
    monkeypatch.setattr(layer_module, "LARGE_IMAGES_NUMEL", limit)
    make, shape = LAYERS[kind]
    layer = quantize_layer(make(), {"data_in_0": Integer(8, 4)}, "Integer")
    rounded: list[Tensor] = []
    original = Integer.quantize

    def quantize(number_format: Integer, x: Tensor) -> Tensor:
        rounded.append(x)
        return original(number_format, x)

    monkeypatch.setattr(Integer, "quantize", quantize)
    run(layer, torch.randn(shape), training=False)
    assert len(rounded) == num_slices


def test_the_rounded_copy_is_not_kept_for_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = quantize_layer(nn.Linear(8, 4), {"data_in_0": FORMATS["integer"]()}, "Integer")
    x = torch.randn(64, 8, requires_grad=True)

    def copies_alive() -> int:
        copies = []
        original = Integer.quantize

        def quantize(number_format: Integer, value: Tensor, scale: Tensor | None = None) -> Tensor:
            rounded = original(number_format, value, scale)
            copies.append(weakref.ref(rounded.untyped_storage()))
            return rounded

        with monkeypatch.context() as patched:
            patched.setattr(Integer, "quantize", quantize)
            y = layer(x)
        alive = sum(copy() is not None for copy in copies)
        y.sum().backward()
        return alive

    assert copies_alive() == 1
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", 1)
    assert copies_alive() == 0


@pytest.mark.parametrize(
    "config", [{"block_size": (32, 32)}, {"block_size": 32, "block_dim": 0}, {"block_size": 7}]
)
@pytest.mark.parametrize("shape", [(103, 64), (103,)])
def test_blocks_across_rows_are_not_split(
    config: dict[str, Any], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = quantize_layer(nn.ReLU(), {"data_in_0": BlockFP(4, **config)}, "BlockFP")
    x = torch.randn(shape) * 2.0 ** torch.randint(-5, 5, shape)
    expected = run(layer, x, training=False)[0]
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", 1)
    assert run(layer, x, training=False)[0].equal(expected)


def test_changing_the_input_before_backward_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", 1)
    layer = quantize_layer(nn.Linear(8, 4), {"data_in_0": FORMATS["integer"]()}, "Integer")
    x = torch.randn(64, 8)
    y = layer(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="was modified in place"):
        y.sum().backward()
