"""Incremental runs of a changed graph, compared with complete runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from chop.formats.integer import Integer
from chop.ir import MaseGraph
from chop.ir.graph.incremental import IncrementalRun
from chop.ir.graph.result_cache import ResultCache
from chop.nn.quantized import QuantConfig
from chop.passes.graph import init_metadata_analysis_pass, quantize_transform_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.passes.quantization.replacement import formats_of, make_replacement
from samples import LAB_CONFIG, Mixed, annotated

WIDTHS = (3, 5, 8)


class Chain(nn.Module):
    """A chain with in-place layers, then two branches that are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.BatchNorm1d(8), nn.Linear(8, 8))
        self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        F.relu(y, inplace=True)
        return torch.cat([self.left(y), self.right(y) * 2], dim=1)[:, 1:]


def config(width: int) -> dict[str, Any]:
    return {**LAB_CONFIG, "data_in_width": width, "weight_width": width}


def node_named(graph: MaseGraph, name: str) -> fx.Node:
    found: fx.Node = next(node for node in graph.fx_graph.nodes if node.name == name)
    return found


def quantised_copy_output(graph: MaseGraph, widths: dict[str, int], x: Tensor) -> Tensor:
    """Copy the graph, quantise the copy and run it completely."""
    changed = deepcopy_mase_graph(graph)
    by_name = {name: {"config": config(width)} for name, width in widths.items()}
    changed, _ = quantize_transform_pass(changed, {"by": "name", **by_name})
    with torch.no_grad():
        result: Tensor = changed.model(x.clone())
    return result


def replaced(graph: MaseGraph, widths: dict[str, int], made: dict[Any, Any]) -> dict[fx.Node, Callable[..., Any]]:
    found = {}
    for name, width in widths.items():
        meta = node_named(graph, name).meta["mase"]
        if (name, width) not in made:
            quant_config = QuantConfig.read(config(width), name)
            assert quant_config is not None
            made[name, width] = make_replacement(meta, formats_of(meta, quant_config)[0], "integer")
        found[meta.node] = made[name, width]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("model", [Chain, Mixed])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("limit", [None, 2_000, 10**6])
@pytest.mark.parametrize("num_replaceable", [None, 1, 3])
def test_any_order_of_changes_equals_a_complete_run(
    model: type[nn.Module], keep: bool, limit: int | None, num_replaceable: int | None
) -> None:
    torch.manual_seed(0)
    draw = random.Random(0)
    x = torch.randn(16, 6)
    graph = annotated(model().eval(), x=x)
    nodes = [meta.node for meta in graph.metas() if meta.quantizable]
    if num_replaceable is not None:
        nodes = nodes[::2][:num_replaceable]
    names = [node.name for node in nodes]
    cache = None if limit is None else ResultCache(limit)
    replaceable = None if num_replaceable is None else nodes
    incremental = IncrementalRun(graph, {"x": x}, keep=keep, cache=cache, replaceable=replaceable)
    made: dict[Any, Any] = {}
    for _ in range(12):
        widths = {name: draw.choice(WIDTHS) for name in names if draw.random() < 0.7}
        expected = quantised_copy_output(graph, widths, x)
        assert torch.equal(incremental.run(replaced(graph, widths, made)), expected)
    assert torch.equal(incremental.run(), quantised_copy_output(graph, {}, x))


def test_only_nodes_that_depend_on_a_change_run() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    calls: list[str] = []
    for path, module in graph.model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, path=path: calls.append(path))
    incremental = IncrementalRun(graph, {"x": x})
    incremental.run()
    calls.clear()
    incremental.run(replaced(graph, {"right": 8}, {}))
    assert calls == ["right"]  # a quantised layer keeps the hooks of the layer it replaces
    calls.clear()
    incremental.run(replaced(graph, {"body_3": 4}, {}))
    assert calls == ["body.3", "left", "right"]
    calls.clear()
    incremental.run()
    assert calls == ["body.3", "left", "right"]
    calls.clear()
    incremental.run()
    assert calls == []


def test_values_between_replaceable_nodes_are_not_kept() -> None:
    """Of 4 x 6 numbers, three tensors are kept instead of five: the input, and what each linear layer reads."""
    x = torch.randn(4, 6)
    layers = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Linear(6, 6), nn.ReLU(inplace=True)
    graph = annotated(nn.Sequential(*layers).eval(), input=x)
    linear = [meta.node for meta in graph.metas() if meta.mase_op == "linear"]
    incremental = IncrementalRun(graph, {"input": x}, replaceable=linear)
    plain = incremental.run().clone()
    assert incremental.nbytes == 3 * 4 * 24
    assert torch.equal(plain, quantised_copy_output(graph, {}, x))
    calls: list[str] = []
    for path, module in graph.model.named_modules():
        module.register_forward_hook(lambda *_, path=path: calls.append(path))
    changed = {linear[1].name: 4}
    assert torch.equal(incremental.run(replaced(graph, changed, {})), quantised_copy_output(graph, changed, x))
    assert calls[:2] == ["3", "4"]


def test_cached_results_are_not_computed_again() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    made: dict[Any, Any] = {}
    narrow, wide = replaced(graph, {"body_0": 3}, made), replaced(graph, {"body_0": 8}, made)
    calls: list[str] = []
    for path, module in graph.model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, path=path: calls.append(path))
    incremental = IncrementalRun(graph, {"x": x}, cache=ResultCache(10**6))
    outputs = [incremental.run(each).clone() for each in (narrow, wide) * 3]
    calls.clear()
    again = [incremental.run(each) for each in (narrow, wide, narrow)]
    assert calls == []
    for before, now in zip(outputs, again, strict=False):
        assert torch.equal(before, now)


@pytest.mark.parametrize(("name", "num_rounded"), [("body_3", 2), ("body_1", 3)])
def test_layers_share_their_rounded_input_unless_they_overwrite_it(
    monkeypatch: pytest.MonkeyPatch, name: str, num_rounded: int
) -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    meta = node_named(graph, name).meta["mase"]
    layers: list[Any] = []
    for width in WIDTHS:
        quant_config = QuantConfig.read({**config(width), "data_in_width": 8}, name)
        assert quant_config is not None
        formats = formats_of(meta, quant_config)[0]
        shared = {"data_in_0": layers[0].formats["data_in_0"]} if layers else {}
        layers.append(make_replacement(meta, {**formats, **shared}, "integer"))
    incremental = IncrementalRun(graph, {"x": x}, cache=ResultCache(10**6))
    incremental.run()
    value = incremental.values[meta.node.args[0]]
    rounded: list[Tensor] = []
    original = Integer.quantize

    def quantize(self: Integer, x: Tensor, scale: Tensor | None = None) -> Tensor:
        rounded.append(x)
        return original(self, x, scale)

    monkeypatch.setattr(Integer, "quantize", quantize)
    outputs = [(incremental.run({meta.node: layer}), incremental.values[meta.node]) for layer in layers]
    assert sum(x is value for x in rounded) == num_rounded  # a result is cached the second time
    for layer, (_, result) in zip(layers, outputs, strict=True):
        assert torch.equal(result, layer(value))


def test_a_peek_leaves_the_values_of_the_last_run() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    incremental = IncrementalRun(graph, {"x": x})
    plain = incremental.run().clone()
    before = {node: incremental.values[node].clone() for node in graph.fx_graph.nodes}
    peeked = incremental.peek(replaced(graph, {"body_0": 3}, {}))
    assert torch.equal(peeked.output, quantised_copy_output(graph, {"body_0": 3}, x))
    assert not torch.equal(peeked.output, plain)
    left = [node.name for node in graph.fx_graph.nodes if peeked[node] is not None]
    assert left == ["body_0", "output"]  # what nobody reads any more takes no memory
    assert all(torch.equal(incremental.values[node], value) for node, value in before.items())
    assert torch.equal(incremental.values.output, plain)


class WritesElsewhere(nn.Module):
    """Overwrites a tensor through a view, which is not in the op table."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y[:, 0].zero_()
        result: Tensor = self.second(y)
        return result


def test_an_overwritten_value_is_computed_in_each_run() -> None:
    x = torch.randn(4, 6)
    graph = annotated(WritesElsewhere().eval(), x=x)
    incremental = IncrementalRun(graph, {"x": x})
    for _ in range(2):
        assert torch.equal(incremental.run(), quantised_copy_output(graph, {}, x))
        only_second = incremental.run(replaced(graph, {"second": 4}, {}))
        assert torch.equal(only_second, quantised_copy_output(graph, {"second": 4}, x))


def test_the_run_after_an_error_is_complete() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    incremental = IncrementalRun(graph, {"x": x})
    plain = incremental.run().clone()
    with pytest.raises(ValueError, match="node 'left' does not run"):
        incremental.run(
            {
                node_named(graph, "body_0"): lambda y: y @ torch.ones(6, 8),
                node_named(graph, "left"): nn.Linear(1, 1),
            }
        )
    assert torch.equal(incremental.run(), plain)


def test_values_are_not_kept_with_keep_false() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    incremental = IncrementalRun(graph, {"x": x}, keep=False)
    incremental.run()
    assert incremental.nbytes == 0
    with pytest.raises(ValueError, match="no values are kept"):
        _ = incremental.values


class Branching(nn.Module):
    """Overwrites a value that is read later: through a complete or partial view, or by keyword argument."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.first, self.rectify, self.last = nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if self.kind == "complete view":
            self.rectify(y.view(-1))
        elif self.kind == "partial view":
            self.rectify(y[:, :3])
        elif self.kind == "named":
            self.rectify(input=y)
        else:
            torch.relu_(input=y)
        result: Tensor = self.last(y)
        return result


@pytest.mark.parametrize("kind", ["complete view", "partial view", "named", "named function"])
def test_a_replaced_in_place_node_may_come_back(kind: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    graph = annotated(Branching(kind).eval(), x=x)
    rectify = next(meta.node.name for meta in graph.metas() if meta.mase_op == "relu")
    plain, quantised = (quantised_copy_output(graph, widths, x) for widths in ({}, {rectify: 5}))
    assert not torch.equal(plain, quantised)
    incremental = IncrementalRun(graph, {"x": x})
    for _ in range(2):  # in place only every second time
        assert torch.equal(incremental.run(replaced(graph, {rectify: 5}, {})), quantised)
        assert torch.equal(incremental.run(), plain)
        assert torch.equal(incremental.peek(replaced(graph, {rectify: 5}, {})).output, quantised)


class UserLayer(nn.Module):
    """A user's layer whose attribute `inplace` refers to a function inside it, not to its input."""

    inplace = True

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.linear(x), inplace=self.inplace)


class AroundUserLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = UserLayer(), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.layer(x) + x)
        return result


def test_an_unknown_layer_does_not_count_as_in_place() -> None:
    x = torch.randn(4, 6)
    model = AroundUserLayer().eval()
    graph = MaseGraph(model, leaf_modules=(UserLayer,))
    graph, _ = init_metadata_analysis_pass(graph)
    with torch.no_grad():
        assert torch.equal(IncrementalRun(graph, {"x": x}).run(), model(x))


class InPlaceOnView(nn.Module):
    """As in EfficientNet: dropout overwrites a view of a value that is not read again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(6, 6), nn.Dropout(inplace=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.drop(self.first(x).flatten(1)))
        return result


def test_values_are_reused_if_a_view_is_not_read_later() -> None:
    x = torch.randn(4, 6)
    graph = annotated(InPlaceOnView().eval(), x=x)
    calls: list[str] = []
    graph.modules["first"].register_forward_hook(lambda *_: calls.append("first"))
    incremental = IncrementalRun(graph, {"x": x})
    incremental.run()
    incremental.run(replaced(graph, {"last": 4}, {}))
    assert calls == ["first"]


def test_shared_memory_is_counted_once() -> None:
    """4 x 6 input values, 4 x 6 hidden ones with a view of them, and 4 x 2 outputs, of 4 bytes each."""
    x = torch.randn(4, 6)
    graph = annotated(nn.Sequential(nn.Linear(6, 6), nn.Flatten(), nn.Linear(6, 2)).eval(), input=x)
    incremental = IncrementalRun(graph, {"input": x})
    incremental.run()
    assert incremental.nbytes == 4 * (24 + 24 + 8)
    sliced = annotated(Slice().eval(), x=x)
    incremental = IncrementalRun(sliced, {"x": x})
    incremental.run()
    assert incremental.nbytes == 4 * 24  # the slice keeps the memory of the complete tensor


class Slice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:2]
