"""Running a graph again after changes, against running all of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from chop.ir import MaseGraph
from chop.ir.graph.incremental import Rerun
from chop.ir.graph.result_cache import Remembered
from chop.nn.quantized import QuantConfig
from chop.passes.graph import init_metadata_analysis_pass, quantize_transform_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.passes.quantization.replacement import formats_of, replacement
from samples import LAB_CONFIG, Mixed, annotated

WIDTHS = (3, 5, 8)


class Chain(nn.Module):
    """In-place and other layers in a row, then two ways that meet."""

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


def quantised_whole(graph: MaseGraph, widths: dict[str, int], x: Tensor) -> Tensor:
    """The plain way: copy, quantise, run all."""
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
            made[name, width] = replacement(meta, formats_of(meta, quant_config)[0], "integer")
        found[meta.node] = made[name, width]
    return found


@pytest.mark.parametrize("model", [Chain, Mixed])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("limit", [None, 2_000, 10**6])
def test_any_order_of_changes_gives_what_a_whole_run_gives(
    model: type[nn.Module], keep: bool, limit: int | None
) -> None:
    torch.manual_seed(0)
    draw = random.Random(0)
    x = torch.randn(16, 6)
    graph = annotated(model().eval(), x=x)
    names = [meta.node.name for meta in graph.metas() if meta.quantizable]
    remembered = None if limit is None else Remembered(limit)
    rerun = Rerun(graph, {"x": x}, keep=keep, remembered=remembered)
    made: dict[Any, Any] = {}
    for _ in range(12):
        widths = {name: draw.choice(WIDTHS) for name in names if draw.random() < 0.7}
        expected = quantised_whole(graph, widths, x)
        assert torch.equal(rerun.run(replaced(graph, widths, made)), expected)
    assert torch.equal(rerun.run(), quantised_whole(graph, {}, x))


def test_only_what_depends_on_a_change_runs() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    calls: list[str] = []
    for path, module in graph.model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, path=path: calls.append(path))
    rerun = Rerun(graph, {"x": x})
    rerun.run()
    calls.clear()
    rerun.run(replaced(graph, {"right": 8}, {}))
    assert calls == ["right"]  # a quantised layer keeps the hooks of the layer it stands for
    calls.clear()
    rerun.run(replaced(graph, {"body_3": 4}, {}))
    assert calls == ["body.3", "left", "right"]
    calls.clear()
    rerun.run()
    assert calls == ["body.3", "left", "right"]
    calls.clear()
    rerun.run()
    assert calls == []


def test_what_came_up_twice_is_not_computed_again() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    made: dict[Any, Any] = {}
    narrow, wide = replaced(graph, {"body_0": 3}, made), replaced(graph, {"body_0": 8}, made)
    calls: list[str] = []
    for path, module in graph.model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, path=path: calls.append(path))
    rerun = Rerun(graph, {"x": x}, remembered=Remembered(10**6))
    outputs = [rerun.run(each).clone() for each in (narrow, wide) * 3]
    calls.clear()
    again = [rerun.run(each) for each in (narrow, wide, narrow)]
    assert calls == []  # nor anything behind it
    for before, now in zip(outputs, again, strict=False):
        assert torch.equal(before, now)


def test_a_peek_leaves_the_values_of_the_last_run() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    rerun = Rerun(graph, {"x": x})
    plain = rerun.run().clone()
    before = {node: rerun.value(node).clone() for node in graph.fx_graph.nodes}
    peeked = rerun.peek(replaced(graph, {"body_0": 3}, {}))
    assert torch.equal(peeked.output, quantised_whole(graph, {"body_0": 3}, x))
    assert not torch.equal(peeked.output, plain)
    assert all(torch.equal(rerun.value(node), value) for node, value in before.items())
    assert torch.equal(rerun.output, plain)


class WritesElsewhere(nn.Module):
    """Writes into a tensor through a view, which the op table does not know of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y[:, 0].zero_()
        result: Tensor = self.second(y)
        return result


def test_a_value_that_is_written_into_is_made_anew_each_time() -> None:
    x = torch.randn(4, 6)
    graph = annotated(WritesElsewhere().eval(), x=x)
    rerun = Rerun(graph, {"x": x})
    for _ in range(2):
        assert torch.equal(rerun.run(), quantised_whole(graph, {}, x))
        only_second = rerun.run(replaced(graph, {"second": 4}, {}))
        assert torch.equal(only_second, quantised_whole(graph, {"second": 4}, x))


def test_after_an_error_the_next_run_is_whole() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    rerun = Rerun(graph, {"x": x})
    plain = rerun.run().clone()
    with pytest.raises(ValueError, match="node 'left' does not run"):
        rerun.run(
            {
                node_named(graph, "body_0"): lambda y: y @ torch.ones(6, 8),
                node_named(graph, "left"): nn.Linear(1, 1),
            }
        )
    assert torch.equal(rerun.run(), plain)


def test_values_are_kept_only_if_asked_for() -> None:
    x = torch.randn(4, 6)
    graph = annotated(Chain().eval(), x=x)
    rerun = Rerun(graph, {"x": x}, keep=False)
    rerun.run()
    assert rerun.nbytes == 0
    with pytest.raises(ValueError, match="no value of node 'body_0' is kept"):
        rerun.value(node_named(graph, "body_0"))


class Branching(nn.Module):
    """Writes in place into what is read later: through a view of all of it or a part, or by name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.first, self.rectify, self.last = nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if self.kind == "whole view":
            self.rectify(y.view(-1))
        elif self.kind == "part":
            self.rectify(y[:, :3])
        elif self.kind == "named":
            self.rectify(input=y)
        else:
            torch.relu_(input=y)
        result: Tensor = self.last(y)
        return result


@pytest.mark.parametrize("kind", ["whole view", "part", "named", "named function"])
def test_writes_that_a_replacement_hides_are_not_forgotten(kind: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    graph = annotated(Branching(kind).eval(), x=x)
    rectify = next(meta.node.name for meta in graph.metas() if meta.mase_op == "relu")
    plain, quantised = (quantised_whole(graph, widths, x) for widths in ({}, {rectify: 5}))
    assert not torch.equal(plain, quantised)
    rerun = Rerun(graph, {"x": x})
    for _ in range(2):  # in place only every second time
        assert torch.equal(rerun.run(replaced(graph, {rectify: 5}, {})), quantised)
        assert torch.equal(rerun.run(), plain)
        assert torch.equal(rerun.peek(replaced(graph, {rectify: 5}, {})).output, quantised)


class Whole(nn.Module):
    """A layer of the user's own: its attribute tells of what is inside it, not of its input."""

    inplace = True

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.linear(x), inplace=self.inplace)


class AroundWhole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.whole, self.last = Whole(), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.whole(x) + x)
        return result


def test_an_unknown_layer_is_not_taken_to_overwrite_its_input() -> None:
    x = torch.randn(4, 6)
    model = AroundWhole().eval()
    graph = MaseGraph(model, leaf_modules=(Whole,))
    graph, _ = init_metadata_analysis_pass(graph)
    with torch.no_grad():
        assert torch.equal(Rerun(graph, {"x": x}).run(), model(x))


class InPlaceOnView(nn.Module):
    """As in EfficientNet: what is flattened is not read any more when dropout may write into it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(6, 6), nn.Dropout(inplace=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.drop(self.first(x).flatten(1)))
        return result


def test_a_view_that_nobody_reads_later_keeps_nothing_from_being_reused() -> None:
    x = torch.randn(4, 6)
    graph = annotated(InPlaceOnView().eval(), x=x)
    calls: list[str] = []
    graph.modules["first"].register_forward_hook(lambda *_: calls.append("first"))
    rerun = Rerun(graph, {"x": x})
    rerun.run()
    rerun.run(replaced(graph, {"last": 4}, {}))
    assert calls == ["first"]


def test_memory_is_counted_once_and_whole() -> None:
    """4 x 6 floats come in, 4 x 6 go through a view into 4 x 2."""
    x = torch.randn(4, 6)
    graph = annotated(nn.Sequential(nn.Linear(6, 6), nn.Flatten(), nn.Linear(6, 2)).eval(), input=x)
    rerun = Rerun(graph, {"input": x})
    rerun.run()
    assert rerun.nbytes == 4 * (24 + 24 + 8)
    part = annotated(Part().eval(), x=x)
    rerun = Rerun(part, {"x": x})
    rerun.run()
    assert rerun.nbytes == 4 * 24  # what a part lies in is kept as a whole


class Part(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:2]
