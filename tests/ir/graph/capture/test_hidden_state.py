"""What a forward uses besides its tensors: generators, arrays, aliases of buffers, autocast; its own `train`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.ir.graph.capture import CaptureError

pytestmark = pytest.mark.slow
WAYS: tuple[Any, ...] = ("fx", "export")
X = torch.randn(4, 8)


class Net(nn.Module):
    """A linear layer, and a function of the module and the layer's result."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor], **attributes: Any) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(8, 8), function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, self.linear(x))


def draws(model: Any, y: Tensor) -> Tensor:
    return y + torch.rand(8, generator=model.generator)


def counts(model: Any, y: Tensor) -> Tensor:
    model.count += 1
    return y * float(model.count[0])


@pytest.mark.parametrize(
    ("function", "name", "way"), [(draws, "generator", "fx"), (counts, "count", "fx"), (counts, "count", "export")]
)
def test_generators_and_arrays_are_state_that_is_refused_and_restored(function: Any, name: str, way: Any) -> None:
    generator, count = torch.Generator().manual_seed(3), np.zeros(1)
    model, state = Net(function, generator=generator, count=count), generator.get_state()
    with pytest.raises(CaptureError, match=rf"'{name}'|random numbers"):
        MaseGraph(model, example_inputs=X, capture=way)
    assert generator.get_state().equal(state)
    assert count[0] == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_buffer_that_changes_and_has_an_alias_is_refused(way: Any) -> None:
    def update(model: Any, y: Tensor) -> Tensor:
        model.count += 1
        z: Tensor = y + model.alias
        return z

    model = Net(update)
    model.register_buffer("count", torch.zeros(8))
    model.alias = model.count
    with pytest.raises(CaptureError, match=r"changes buffers, and .* share memory"):
        MaseGraph(model, example_inputs=X, capture=way)


@pytest.mark.parametrize("way", WAYS)
def test_autocast_in_a_forward_is_refused(way: Any) -> None:
    def lower(model: Any, y: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z: Tensor = model.linear(y)
        return z

    with pytest.raises(CaptureError, match=r"torch\.autocast"):
        MaseGraph(Net(lower), example_inputs=X, capture=way)
    assert not torch.is_autocast_enabled("cpu")


class Attention(nn.Module):
    """Attention that only torch.export captures, with dropout that torch calls in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2] != 8:
            raise ValueError("wrong size")
        y: Tensor = self.attention(x, x, x)[0]
        return y


def test_dropout_of_an_attention_is_not_lost_in_training() -> None:
    model, x = Attention(), torch.randn(2, 5, 8)
    graph = MaseGraph(model, example_inputs=x)
    assert torch.allclose(graph.model.eval()(x), model.eval()(x), atol=1e-6)
    graph.model.train()
    with pytest.raises(ValueError, match="is for evaluation"):
        graph.model(x)


class Frozen(nn.Module):
    """A network that keeps its batch norm in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.linear(x))
        return y

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.norm.eval()
        return self


@pytest.mark.parametrize("way", WAYS)
def test_a_train_of_the_models_own_is_a_warning(way: Any, caplog: pytest.LogCaptureFixture) -> None:
    MaseGraph(Frozen(), example_inputs=X, capture=way)
    assert "Frozen keeps 'norm' in evaluation mode when it is trained, which its graph does not" in caplog.text


class Made(Frozen):
    """A network whose `train` is not a function."""

    train = functools.partialmethod(Frozen.train, True)


def test_a_train_that_is_not_a_function_is_no_problem(caplog: pytest.LogCaptureFixture) -> None:
    MaseGraph(Made(), example_inputs=X)
    assert "Made keeps 'norm' in evaluation mode" in caplog.text


def test_buffers_without_data_have_no_aliases() -> None:
    def update(model: Any, y: Tensor) -> Tensor:
        model.count += 1
        z: Tensor = y + model.count
        return z

    model = Net(update)
    for name, device in (("count", "cpu"), ("one", "meta"), ("two", "meta")):
        model.register_buffer(name, torch.zeros(8, device=device))
    graph = MaseGraph(model, example_inputs=X, capture="fx")
    first = graph.model(X).detach()
    assert torch.allclose(graph.model(X) - first, torch.ones(8), atol=1e-5)
