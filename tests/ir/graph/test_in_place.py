"""Ops that overwrite their input compute the same when they are quantised, copied, saved, and run step by step."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.ir.graph.in_place import overwrites_shared_memory
from chop.ir.graph.incremental import IncrementalRun
from chop.passes.graph import (
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)
from chop.passes.quantization.replacement import make_replacements
from chop.passes.quantization.selection import QuantizeArgs, chosen_configs
from samples import annotated

# 20 bits of fraction: the result differs from the float model by rounding only.
WIDE = {"by": "type", "default": {"config": {"name": "integer", "data_in_width": 28, "data_in_frac_width": 20}}}


def read_later(model: InPlace, x: Tensor) -> Any:
    return model.last(model.first(model.relu(x)) + x)


def base_of_view(model: InPlace, x: Tensor) -> Any:
    v = x.view(-1, 2, 2)
    model.relu(v)
    return model.last(x)


def view_of_base(model: InPlace, x: Tensor) -> Any:
    v = x.view(-1, 2, 2)
    model.relu(x)
    return model.last(v.flatten(1))


def part_of_base(model: InPlace, x: Tensor) -> Any:
    x[:, :2].mul_(2.0)
    return model.last(x)


def one_half(model: InPlace, x: Tensor) -> Any:
    a, b = x.narrow(1, 0, 2), x.narrow(1, 2, 2)
    F.relu(input=a, inplace=True)
    return model.last(x) + a.mean() + b.mean()


def returned(model: InPlace, x: Tensor) -> Any:
    x += 1.0
    F.relu_(x)
    return x


def after_dropout(model: InPlace, x: Tensor) -> Any:
    same = model.drop(x)
    same.relu_()
    return model.last(x)


def result_only(model: InPlace, x: Tensor) -> Any:
    return model.last(model.relu(x).view(-1, 4))


SHARED: list[Callable[[InPlace, Tensor], Any]] = [
    *(read_later, base_of_view, view_of_base, part_of_base, one_half, returned, after_dropout)
]


class InPlace(nn.Module):
    """One of the functions above, after a layer."""

    def __init__(self, function: Callable[[InPlace, Tensor], Any]) -> None:
        super().__init__()
        self.start, self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.relu, self.drop = nn.ReLU(inplace=True), nn.Dropout()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.function(self, self.start(x))
        return y


def quantized(model: nn.Module, x: Tensor) -> MaseGraph:
    return quantize_transform_pass(annotated(model, x=x), WIDE)[0]


@pytest.mark.parametrize("function", [*SHARED, result_only])
def test_quantised_in_place_ops_compute_the_same(function: Any) -> None:
    model, x = InPlace(function).eval(), torch.randn(3, 4)
    graph = quantized(model, x)
    assert torch.allclose(graph.model(x), model(x), atol=1e-4)
    names = [node.name for node in graph.fx_graph.nodes]
    assert names == [node.name for node in MaseGraph(model).fx_graph.nodes]


@pytest.mark.slow
@pytest.mark.parametrize("function", [*SHARED, result_only])
def test_copied_and_loaded_graphs_compute_the_same(function: Any, tmp_path: Path) -> None:
    model, x = InPlace(function).eval(), torch.randn(3, 4)
    graph = quantized(model, x)
    save_mase_graph_interface_pass(graph, tmp_path)
    with_model, _ = load_mase_graph_interface_pass(MaseGraph(model), tmp_path)
    without_model, _ = load_mase_graph_interface_pass(None, tmp_path)
    expected = graph.model(x)
    for other in (with_model.model, without_model.model, copy.deepcopy(graph.model)):
        assert other(x).equal(expected)
    assert pickle.loads(pickle.dumps(graph.model))(x).equal(expected)


@pytest.mark.parametrize("function", SHARED)
def test_gradients_are_those_of_the_float_model(function: Any) -> None:
    model, x = InPlace(function).eval(), torch.randn(3, 4)
    model(x).sum().backward()
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    quantized(model, x).model(x).sum().backward()
    assert expected.keys() == {name for name, p in model.named_parameters() if p.grad is not None}
    for name, gradient in expected.items():
        assert torch.allclose(model.get_parameter(name).grad, gradient, atol=1e-3)  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [*SHARED, result_only])
def test_incremental_runs_compute_the_same(function: Any) -> None:
    model, x = InPlace(function).eval(), torch.randn(3, 4)
    graph = annotated(model, x=x)
    graph.model.eval()
    configs = chosen_configs(QuantizeArgs.from_pass_args(WIDE, "test"), graph.metas())
    replacements, _ = make_replacements(configs, graph.metas())
    run = IncrementalRun(graph, {"x": x})
    with torch.no_grad():
        expected, rounded = model(x), quantized(model, x).model(x)
    for replaced, wanted in ((None, expected), (replacements, rounded), ({}, expected), (replacements, rounded)):
        assert run.run(replaced).equal(wanted)


def test_memory_is_shared_only_where_something_else_reads_it() -> None:
    def writing(function: Any) -> list[str]:
        graph = annotated(InPlace(function), x=torch.randn(3, 4))
        return [node.name for node in graph.fx_graph.nodes if overwrites_shared_memory(node)]

    assert writing(result_only) == []
    assert writing(read_later) == ["relu"]
    assert writing(returned) == ["relu_"]  # `+=` is the only reader of the tensor that it overwrites
    assert writing(one_half) == ["relu"]


def test_an_in_place_op_on_a_buffer_changes_it() -> None:
    class Counts(nn.Module):
        count: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            return 2 * self.count.add_(x)

    x = torch.ones(2)
    graph = quantized(Counts(), x)
    graph.model(x)
    assert graph.model(x).tolist() == [4.0, 4.0]
    assert graph.model.get_buffer("count").tolist() == [2.0, 2.0]


def test_a_file_of_a_graph_with_other_edges_is_refused(tmp_path: Path) -> None:
    class Difference(nn.Module):
        def __init__(self, swapped: bool) -> None:
            super().__init__()
            self.swapped = swapped

        def forward(self, x: Tensor) -> Tensor:
            a = x * 1.0
            b = x * 2.0
            return b - a if self.swapped else a - b

    save_mase_graph_interface_pass(annotated(Difference(False), x=torch.ones(2)), tmp_path)
    with pytest.raises(ValueError, match="it holds a different model: the arguments of its node 'sub' are"):
        load_mase_graph_interface_pass(MaseGraph(Difference(True)), tmp_path)
