"""What annotation finds; it does not change the model."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from samples import LAB_PASS_ARGS, Mixed, Tiny, annotated, tiny_graph


def ops(graph: MaseGraph) -> list[tuple[str, str]]:
    return [(meta.mase_type, meta.mase_op) for meta in graph.metas()]


def test_types_and_ops_of_a_mixed_model() -> None:
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    assert ops(graph) == [
        ("placeholder", "placeholder"),
        ("module_related_func", "linear"),
        ("module_related_func", "relu"),
        ("get_attr", "get_attr"),
        ("builtin_func", "mul"),
        ("get_attr", "get_attr"),
        ("builtin_func", "add"),
        ("module_related_func", "gelu"),
        ("builtin_func", "cat"),
        ("builtin_func", "neg"),
        ("unknown", "unknown"),  # sinc
        ("implicit_func", "view"),
        ("implicit_func", "transpose"),
        ("builtin_func", "bmm"),
        ("implicit_func", "flatten"),
        ("builtin_func", "mean"),
        ("output", "output"),
    ]


def test_all_ways_to_call_relu_are_relu() -> None:
    class Relus(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(torch.relu(self.layer(x)).relu(), inplace=True).relu_()

    found = ops(annotated(Relus(), x=torch.randn(3)))[1:-1]
    assert found == [("module_related_func", "relu")] * 5


def test_an_entry_prints_as_in_the_course_notes() -> None:
    linear = tiny_graph().metas()[3]
    entry = linear.parameters["common"]["args"]["data_in_0"]
    assert list(entry) == ["shape", "torch_dtype", "type", "precision", "value"]
    start = "{'shape': [8, 16], 'torch_dtype': torch.float32, 'type': 'float', 'precision': [32], 'value': tensor("
    assert repr(entry).startswith(start)
    assert repr(linear.parameters["common"]).startswith(
        "{'mase_type': 'module_related_func', 'mase_op': 'linear', 'args': {'data_in_0': "
    )
    assert list(linear.parameters["common"]["args"]) == ["data_in_0", "weight", "bias"]


def test_users_can_add_keys_but_not_change_derived_ones() -> None:
    meta = tiny_graph().metas()[3]
    meta.parameters["common"]["flop"] = 640
    meta.parameters["common"]["args"]["weight"]["importance"] = 0.5
    meta.parameters["hardware"]["interface"] = "stream"
    assert meta.parameters["common"]["flop"] == 640
    assert meta.parameters["common"]["args"]["weight"]["importance"] == 0.5
    assert meta.parameters["hardware"] == {"interface": "stream"}
    with pytest.raises(ValueError, match="'precision' is computed from the graph"):
        meta.parameters["common"]["args"]["weight"]["precision"] = [4, 2]


def test_keys_are_kept_wherever_users_add_them() -> None:
    graph = tiny_graph()
    parameters = graph.metas()[3].parameters
    parameters["mine"] = 1
    parameters["common"]["args"]["extra"] = {"a": 1}
    parameters["common"]["results"]["extra"] = {"b": 2}
    for again in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        found = again.metas()[3].parameters
        assert found["mine"] == 1
        assert found["common"]["args"]["extra"] == {"a": 1}
        assert list(found["common"]["results"]) == ["data_out_0", "extra"]


def test_a_copy_of_metadata_is_a_plain_dict() -> None:
    graph = tiny_graph()
    meta = graph.metas()[3]
    snapshot = copy.deepcopy(meta.parameters["common"])
    assert type(snapshot) is dict
    assert type(snapshot["args"]["weight"]) is dict
    meta.parameters["common"]["args"]["weight"]["shape"].append(9)
    quantize_transform_pass(graph, LAB_PASS_ARGS)
    assert snapshot["args"]["weight"]["type"] == "float"
    assert meta.parameters["common"]["args"]["weight"]["type"] == "integer"
    assert meta.parameters["common"]["args"]["weight"]["shape"] == [5, 16]


def test_matmul_and_attention_name_their_operands() -> None:
    class Attends(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q @ k.transpose(-1, -2) @ k, k, v)

    q = torch.randn(1, 2, 3, 4)
    graph = annotated(Attends(), q=q, k=q, v=q)
    metas = {meta.mase_op: meta for meta in graph.metas()}
    assert list(metas["matmul"].args) == ["data_in_0", "data_in_1"]
    assert list(metas["scaled_dot_product_attention"].args) == ["data_in_0", "data_in_1", "data_in_2"]
    roles = {operand.name: operand.role for operand in metas["matmul"].op.operands}  # type: ignore[union-attr]
    assert roles == {"data_in_0": "data_in", "data_in_1": "weight"}


def test_values_are_kept_before_an_in_place_op() -> None:
    x = torch.randn(8, 16)
    model = Tiny().eval()
    graph = annotated(model, x=x)
    normalised = model.seq_blocks[0](x)
    metas = graph.metas()
    for value in (metas[1].value("data_out_0"), metas[2].value("data_in_0")):
        assert value is not None
        assert value.equal(normalised)
    after = metas[2].value("data_out_0")
    assert after is not None
    assert after.equal(normalised.relu())


class Restless(nn.Module):
    """Dropout and batch statistics that are always active, and modules in different modes."""

    mean: Tensor
    var: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.frozen = nn.BatchNorm1d(4).eval()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.frozen(self.norm(F.dropout(x, 0.5, training=True)))
        return F.batch_norm(y, self.mean, self.var, training=True)


def test_annotation_keeps_modes_buffers_and_random_state() -> None:
    model = Restless()
    before, modes, rng = (
        copy.deepcopy(model.state_dict()),
        [m.training for m in model.modules()],
        torch.get_rng_state(),
    )
    annotated(model, x=torch.ones(3, 4))
    assert [m.training for m in model.modules()] == modes
    assert torch.get_rng_state().equal(rng)
    for key, value in model.state_dict().items():
        assert value.equal(before[key]), key


def test_annotation_keeps_parameters_and_inputs() -> None:
    class Renormalises(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU(inplace=True)
            self.embed = nn.Embedding(5, 4, max_norm=1.0)

        def forward(self, x: Tensor, others: list[Tensor], ids: Tensor) -> Tensor:
            y: Tensor = self.relu(x) + self.relu(others[0]) + self.embed(ids)
            return y

    model = Renormalises()
    with torch.no_grad():
        model.embed.weight.fill_(3)
    x, others = -torch.ones(2, 4), [-torch.ones(4)]
    graph = annotated(model, x=x, others=others, ids=torch.tensor([0, 1]))
    assert (model.embed.weight == 3).all()
    assert (x == -1).all()
    assert (others[0] == -1).all()
    noted = graph.metas()[0].value("data_out_0")
    assert noted is not None
    assert (noted == -1).all()


def test_lists_and_dicts_of_inputs() -> None:
    class Variadic(nn.Module):
        def forward(self, x: Tensor, *rest: Tensor, **named: Tensor) -> Tensor:
            return x + rest[0] * rest[1] - named["shift"]

    one = torch.ones(2)
    graph = annotated(Variadic(), x=one, rest=[one * 2, one * 3], shift=one * 4)
    result = graph.metas()[-2].value("data_out_0")
    assert result is not None
    assert result.tolist() == [3.0, 3.0]
    assert graph.model(one, one * 2, one * 3, shift=one * 4).equal(result)
    with pytest.raises(ValueError, match=r"'\*rest' must be a list, got Tensor"):
        annotated(Variadic(), x=one, rest=one, shift=one)


def test_values_can_be_left_out() -> None:
    graph, _ = init_metadata_analysis_pass(MaseGraph(Tiny()))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(8, 16)}, "add_value": False})
    linear = graph.metas()[3]
    assert linear.value("data_in_0") is None
    assert linear.value("weight") is not None  # read from the layer
    assert linear.args["data_in_0"].shape == [8, 16]


def test_a_model_with_optional_inputs_and_several_results() -> None:
    class Splits(nn.Module):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
            first, second = x.chunk(2)
            return first, second * 2

    metas = annotated(Splits(), x=torch.randn(4, 2)).metas()
    by_op = {meta.mase_op: meta for meta in metas}
    assert list(by_op["chunk"].results) == ["data_out_0", "data_out_1"]
    assert [tensor.shape for tensor in by_op["output"].args.values()] == [[2, 2], [2, 2]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"y": torch.randn(8, 16)}, "the model has no input 'y'; known: x"),
        ({}, "input 'x' is missing; the model takes x"),
        ({"x": torch.randn(8, 3)}, "node 'seq_blocks_0' does not run on the given inputs"),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        annotated(Tiny(), **inputs)


def test_an_error_names_the_pass_to_run_first() -> None:
    graph = MaseGraph(Tiny())
    with pytest.raises(ValueError, match="run init_metadata_analysis_pass first"):
        add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(8, 16)}})
    graph, _ = init_metadata_analysis_pass(graph, None)
    with pytest.raises(ValueError, match="run add_common_metadata_analysis_pass first"):
        add_software_metadata_analysis_pass(graph, None)


class Unsqueezed(nn.Module):
    """Two functions on tensors of the same shape, and a function that changes the shape of one result."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = torch.relu(x)
        b = torch.relu(x).unsqueeze_(0)
        return torch.relu(a), torch.relu(b), torch.relu(x)


@pytest.mark.slow
@pytest.mark.parametrize("model", [Unsqueezed(), Mixed()])
def test_shapes_are_the_same_without_data(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {"x": torch.randn(3, 6)}
    graph, _ = init_metadata_analysis_pass(MaseGraph(model.eval(), example_inputs=inputs, capture="export"))
    found: list[Any] = []
    for least in (2**23, 0):
        monkeypatch.setattr("chop.ir.graph.annotate._LARGE", least)
        add_common_metadata_analysis_pass(graph, {"dummy_in": inputs, "add_value": False})
        found.append(
            [[each.shape for each in (*meta.args.values(), *meta.results.values())] for meta in graph.metas()]
        )
    assert found[0] == found[1]
