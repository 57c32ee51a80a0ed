"""Quantised layers under torch.func and functional_call: each call rounds the parameters that it is given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, vmap
from torch.utils.checkpoint import checkpoint

from chop.formats.integer import Integer
from chop.nn.quantized import QuantizedLayer, quantize_layer
from chop.nn.quantized import layer as layer_module

FORMATS = {role: Integer(8, 4) for role in ("data_in_0", "weight", "bias")}


def linear(training: bool = False) -> QuantizedLayer:
    return quantize_layer(nn.Linear(4, 3), FORMATS, "Integer").train(training)


def test_kept_weights_are_not_used_for_other_parameters_at_the_same_address() -> None:
    layer = quantize_layer(nn.Linear(64, 64, bias=False), {"weight": Integer(8, 4)}, "Integer").eval()
    with torch.no_grad():
        for number in range(8):
            weight = torch.full((64, 64), number / 4)
            for _ in range(2):  # the second call allocates nothing that could take the address
                y = functional_call(layer, {"weight": weight}, (torch.eye(64),))
            assert y.eq(number / 4).all()
            del weight, y


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_kept_weights_are_not_used_for_other_steps() -> None:
    number_format = Integer(8, scale="learned")
    layer = quantize_layer(nn.Linear(2, 2, bias=False), {"weight": number_format}, "Integer").eval()
    x = torch.eye(2)
    with torch.no_grad():
        layer.get_parameter("weight").fill_(0.75)
        for step, rounded in ((torch.tensor(0.25), 0.75), (torch.tensor(0.5), 1.0)):
            assert functional_call(layer, {"weight_scale": step}, (x,)).eq(rounded).all()
        with forward_ad.dual_level():
            layer.fix_scale("weight", 0.04)
            layer(x)
            step = forward_ad.make_dual(torch.tensor(0.04), torch.tensor(1.0))
            found = forward_ad.unpack_dual(functional_call(layer, {"weight_scale": step}, (x,))).tangent
    assert found is not None
    assert found.ne(0).any()


@pytest.mark.parametrize("large_numel", [1, 2**19])
@pytest.mark.parametrize("training", [False, True])
def test_gradients_per_sample_and_of_an_ensemble(
    training: bool, large_numel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", large_numel)
    layer, x = linear(training), torch.randn(5, 2, 4)
    parameters = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        result: Tensor = functional_call(layer, parameters, (x,)).square().sum()
        return result

    found = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    several = {name: torch.stack([each, -2 * each]) for name, each in parameters.items()}
    losses = vmap(loss, in_dims=(0, None))(several, x[0])
    for i, rows in enumerate(x):
        expected = torch.autograd.grad(layer(rows).square().sum(), list(layer.parameters()))
        torch.testing.assert_close([each[i] for each in found.values()], list(expected))
    for i in range(2):
        expected_loss = loss({name: each[i] for name, each in several.items()}, x[0])
        torch.testing.assert_close(losses[i], expected_loss)


@pytest.mark.parametrize("large_numel", [1, 2**19])
def test_a_layer_whose_parameters_are_not_differentiated(large_numel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", large_numel)
    layer, x = linear(), torch.randn(6, 4)
    found = grad(lambda factor: (layer(x) * factor).sum())(torch.tensor(2.0))
    torch.testing.assert_close(found, layer(x).sum())


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("large_numel", [1, 2**19])
def test_forward_mode_derivatives_of_kept_weights(large_numel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", large_numel)
    layer, x = linear(), torch.eye(4)
    tangent = torch.randn(3, 4)
    with torch.no_grad(), forward_ad.dual_level():
        layer(x)  # keeps the rounded weight
        dual = {"weight": forward_ad.make_dual(layer.get_parameter("weight"), tangent)}
        found = forward_ad.unpack_dual(functional_call(layer, dual, (x,))).tangent
    assert found is not None
    assert found.equal(tangent.T)


@pytest.mark.parametrize("large_numel", [1, 2**19])
@pytest.mark.parametrize("training", [False, True])
def test_checkpoints_recompute_the_same(training: bool, large_numel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "LARGE_NUMEL", large_numel)
    layer, x = linear(training), torch.randn(6, 4, requires_grad=True)
    leaves = [x, *layer.parameters()]
    expected = torch.autograd.grad(layer(x).square().sum(), leaves)
    found = torch.autograd.grad(checkpoint(layer, x, use_reentrant=False).square().sum(), leaves)
    torch.testing.assert_close(found, expected)


def test_complex_numbers_are_refused() -> None:
    layer = quantize_layer(nn.Linear(2, 2, dtype=torch.complex64), FORMATS, "Integer")
    with pytest.raises(ValueError, match=r"got torch.complex64: round x.real and x.imag"):
        layer(torch.ones(1, 2, dtype=torch.complex64))
