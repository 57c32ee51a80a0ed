"""The module of a graph has the state of its model in the same order; so do its copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.ir.graph.storage import load_graph, save_graph
from chop.passes.graph import quantize_transform_pass
from samples import annotated


class Reversed(nn.Module):
    """Layers called in a different order than registered, with state that no node uses."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(2, 2)
        self.last = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.first = nn.Linear(4, 4)
        self.idle = nn.Parameter(torch.ones(3))
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("hidden", torch.ones(2), persistent=False)
        self.register_buffer("shown", torch.ones(2))
        self.register_buffer("used", torch.ones(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.last[0](self.last[1](self.first(x)))
        y = F.max_pool2d(y.view(1, 2, 4), (2, 1)) * self.scale + self.used  # type: ignore[operator]
        return y + torch.ones(4)


def through_a_file(graph: MaseGraph, folder: Path) -> MaseGraph:
    save_graph(graph, folder)
    return load_graph(folder)


COPIES: dict[str, Callable[[MaseGraph, Path], MaseGraph]] = {
    "the graph itself": lambda graph, _: graph,
    "deepcopy": lambda graph, _: copy.deepcopy(graph),
    "pickle": lambda graph, _: pickle.loads(pickle.dumps(graph)),
    "graph of the graph": lambda graph, _: MaseGraph(graph.model),
    "save and load": through_a_file,
}


@pytest.mark.parametrize("quantized", [False, True], ids=["float", "quantised"])
@pytest.mark.parametrize("way", COPIES)
def test_the_state_has_the_order_of_the_model(way: str, quantized: bool, tmp_path: Path) -> None:
    model, x = Reversed(), torch.randn(2, 4)
    graph = annotated(model, x=x)
    if quantized:
        graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": {"name": "integer"}}})
    again = COPIES[way](graph, tmp_path).model
    assert [name for name, _ in again.named_modules()] == [name for name, _ in model.named_modules()]
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert list(again.state_dict()) == list(model.state_dict())
    assert [name for name, _ in again.named_buffers()][:3] == ["hidden", "shown", "used"]
    assert again(x).equal(graph.model(x))
    again.load_state_dict(model.state_dict())


def test_optimizer_state_can_be_loaded_for_the_graph() -> None:
    model, x = Reversed(), torch.randn(2, 4)
    before = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(x).sum().backward()
    before.step()
    graph = MaseGraph(model)
    after = torch.optim.SGD(graph.model.parameters(), lr=0.1, momentum=0.9)
    after.load_state_dict(before.state_dict())
    for parameter in model.parameters():
        if parameter.grad is not None:
            assert after.state[parameter]["momentum_buffer"].equal(before.state[parameter]["momentum_buffer"])


def test_a_copy_shares_no_tensors() -> None:
    graph = MaseGraph(Reversed())
    again = copy.deepcopy(graph)
    again.model.get_parameter("first.weight").data.zero_()
    assert graph.model.get_parameter("first.weight").any()


def test_hooks_of_the_model_run_and_are_copied() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    model.register_forward_hook(lambda module, inputs, y: y + 1)
    graph = MaseGraph(model)
    assert graph.model(x).equal(model(x))
    assert copy.deepcopy(graph).model(x).equal(model(x))
