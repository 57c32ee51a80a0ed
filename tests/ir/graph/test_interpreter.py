"""Runs that leave a model as it was."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from chop.ir.graph.interpreter import evaluation_mode, undisturbed


class Counting(nn.Module):
    """Writes into buffers and a parameter in each run, in evaluation mode too."""

    runs: Tensor
    sums: Tensor
    last: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("runs", torch.tensor(0))
        self.register_buffer("sums", torch.zeros(2, 3))
        self.register_buffer("last", torch.full((size, 2), torch.nan).t())
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        self.sums += x
        self.last.copy_(x.sum())
        with torch.no_grad():
            self.scale.mul_(2)
        return x * self.scale


def counting(size: int) -> nn.Sequential:
    return nn.Sequential(Counting(size), nn.BatchNorm1d(3), Counting(size))


@pytest.mark.parametrize("size", [4, 70_000])
def test_all_that_a_run_writes_is_restored(size: int) -> None:
    model = counting(size)
    before = copy.deepcopy(model.state_dict())
    storage = [value.data_ptr() for value in model.state_dict().values()]
    with undisturbed(model):
        model(torch.randn(2, 3))
        assert not model.state_dict()["0.sums"].equal(before["0.sums"])
    assert [value.data_ptr() for value in model.state_dict().values()] == storage
    for name, value in model.state_dict().items():
        assert value.allclose(before[name], rtol=0, atol=0, equal_nan=True), name


def test_the_mode_of_each_layer_is_restored() -> None:
    model = counting(4)
    for training in ([True] * 4, [False] * 4, [True, False, True, False], [False, False, True, True]):
        for module, mode in zip(model.modules(), training, strict=True):
            module.training = mode
        with evaluation_mode(model):
            assert not any(module.training for module in model.modules())
            model[1].train()
        assert [module.training for module in model.modules()] == training
