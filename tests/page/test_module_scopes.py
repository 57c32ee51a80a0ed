"""The module that each node belongs to."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.page.nodes import module_scopes


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(x)) + x


def test_a_function_belongs_to_the_module_that_calls_it() -> None:
    graph = MaseGraph(nn.Sequential(Branch(), Branch()))
    found = {node.name: ".".join(scope) for node, scope in module_scopes(graph.fx_graph.nodes).items()}
    assert found == {"input_1": "", "_0_inner": "0", "relu": "0", "add": "0"} | {
        "_1_inner": "1",
        "relu_1": "1",
        "add_1": "1",
        "output": "",
    }


def test_without_a_record_a_function_belongs_to_the_module_of_its_inputs() -> None:
    graph = MaseGraph(nn.Sequential(Branch(), nn.Sequential(Branch())))
    for node in graph.fx_graph.nodes:
        node.meta.pop("nn_module_stack", None)
    found = {node.name: ".".join(scope) for node, scope in module_scopes(graph.fx_graph.nodes).items()}
    assert (found["relu"], found["relu_1"]) == ("0", "1.0")
    assert found["add_1"] == ""  # one input is in 0, the other in 1.0
