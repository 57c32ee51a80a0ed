"""The quantise pass: which nodes it changes, which it keeps, and what it refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from chop.ir import MaseGraph
from chop.passes.graph import quantize_transform_pass, verify_quantization_analysis_pass
from samples import LAB_CONFIG, LAB_PASS_ARGS, Mixed, Tiny, annotated, tiny_graph


def kinds(graph: MaseGraph) -> list[str]:
    return [type(meta.module).__name__ for meta in graph.metas() if meta.module is not None]


def test_the_lab_config_changes_the_linear_layer_only() -> None:
    graph, info = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    assert kinds(graph) == ["BatchNorm1d", "ReLU", "LinearInteger", "ReLU"]
    assert info["quantized"] == ["seq_blocks_2"]
    args = graph.metas()[3].parameters["common"]["args"]
    for name in ("data_in_0", "weight", "bias"):
        assert (args[name]["type"], args[name]["precision"]) == ("integer", [8, 4])
    assert graph.metas()[3].parameters["common"]["results"]["data_out_0"]["type"] == "float"
    assert graph.metas()[4].parameters["common"]["args"]["data_in_0"]["type"] == "float"


def test_the_callers_dict_and_the_model_are_not_changed() -> None:
    pass_args, model = copy.deepcopy(LAB_PASS_ARGS), Tiny()
    graph = annotated(model, x=torch.randn(8, 16))
    quantize_transform_pass(graph, pass_args)
    assert pass_args == LAB_PASS_ARGS
    assert type(model.seq_blocks[2]) is nn.Linear


@pytest.mark.parametrize("by_name", ["seq_blocks_1", "seq_blocks_3"])
def test_by_name(by_name: str) -> None:
    _, info = quantize_transform_pass(tiny_graph(), {"by": "name", by_name: {"config": {"name": "integer"}}})
    assert info["quantized"] == [by_name]


def test_by_regex_the_first_match_is_used() -> None:
    four, eight = {"name": "integer", "data_in_width": 4}, {"name": "integer", "data_in_width": 8}
    pass_args = {"by": "regex_name", r"seq_blocks_[12]": {"config": four}, r"seq_blocks_\d": {"config": eight}}
    graph, _ = quantize_transform_pass(tiny_graph(), pass_args)
    assert [m.args["data_in_0"].format.width for m in graph.metas()[1:5]] == [8, 4, 4, 8]


def test_default_applies_to_all_computing_nodes_and_none_makes_exceptions() -> None:
    pass_args = {"by": "type", "default": {"config": {"name": "integer"}}, "relu": {"config": {"name": "NA"}}}
    graph, _ = quantize_transform_pass(tiny_graph(), pass_args)
    assert kinds(graph) == ["BatchNorm1dInteger", "ReLU", "LinearInteger", "ReLU"]


def test_functions_methods_and_unknown_ops() -> None:
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    before = [node.name for node in graph.fx_graph.nodes]
    graph, info = quantize_transform_pass(graph, {"by": "type", "default": {"config": LAB_CONFIG}})
    assert info["quantized"] == ["first", "relu", "mul", "add", "gelu", "cat", "neg", "bmm", "mean"]
    targets = {node.name: getattr(node.target, "__name__", node.target) for node in graph.fx_graph.nodes}
    assert (targets["add"], targets["bmm"], targets["sinc"]) == ("add_integer", "bmm_integer", "sinc")
    assert [node.name for node in graph.fx_graph.nodes] == before


def test_a_quantised_function_equals_the_function_of_rounded_operands() -> None:
    class Sum(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a.add(b, alpha=2)

    a, b = torch.randn(5), torch.randn(5)
    graph, _ = quantize_transform_pass(annotated(Sum(), a=a, b=b), {"by": "type", "add": {"config": LAB_CONFIG}})

    def rounded(t: Tensor) -> Tensor:
        return (t * 16).round() / 16

    assert graph.model(a, b).equal(rounded(a) + 2 * rounded(b))


def test_quantising_again_replaces_the_formats() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    once = graph.model(torch.ones(8, 16))
    other = {**LAB_CONFIG, "data_in_width": 16, "data_in_frac_width": 8, "weight_frac_width": 8}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": other}})
    args = graph.metas()[3].parameters["common"]["args"]
    assert [args[name]["precision"] for name in args] == [[16, 8], [8, 8], [8, 4]]
    graph, _ = quantize_transform_pass(graph, LAB_PASS_ARGS)
    assert graph.model(torch.ones(8, 16)).equal(once)
    assert kinds(graph).count("LinearInteger") == 1


class Reused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(F.relu(self.layer(x)))
        return y


def test_a_layer_called_twice_has_one_format() -> None:
    graph = annotated(Reused(), x=torch.randn(2, 4))
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": LAB_CONFIG}})
    assert [m.args["weight"].format.precision for m in graph.metas() if m.mase_op == "linear"] == [[8, 4], [8, 4]]
    for wrong in (
        {"layer": {"config": LAB_CONFIG}, "layer_1": {"config": {"name": "binary"}}},
        {"layer": {"config": LAB_CONFIG}},
    ):
        with pytest.raises(ValueError, match="'layer' and 'layer_1' call the same layer 'layer'"):
            quantize_transform_pass(annotated(Reused(), x=torch.randn(2, 4)), {"by": "name", **wrong})


def test_a_layer_under_two_paths_is_one_layer() -> None:
    root = nn.Module()
    root.a = root.b = nn.Linear(4, 4)
    nodes = fx.Graph()
    nodes.output(nodes.call_module("b", (nodes.call_module("a", (nodes.placeholder("x"),)),)))
    model = fx.GraphModule(root, nodes)
    with pytest.raises(ValueError, match="'a' and 'b' call the same layer"):
        quantize_transform_pass(annotated(model, x=torch.randn(2, 4)), {"by": "name", "a": {"config": LAB_CONFIG}})
    graph, _ = quantize_transform_pass(
        annotated(model, x=torch.randn(2, 4)), {"by": "type", "linear": {"config": LAB_CONFIG}}
    )
    assert kinds(graph) == ["LinearInteger", "LinearInteger"]
    assert graph.model.get_submodule("a") is graph.model.get_submodule("b")


class Indexes(nn.Module):
    """Arithmetic with integers, sizes and floating-point numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 4)

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = self.embed(torch.cat([ids, ids + 50], 1)) * ids.unsqueeze(-1).repeat(1, 2, 1)
        return y.view(y.size(0), y.size(1) * y.size(2))


def test_integers_are_never_rounded() -> None:
    ids = torch.tensor([[20, 49]])
    graph = annotated(Indexes(), ids=ids)
    graph, info = quantize_transform_pass(
        graph, {"by": "type", "default": {"config": {**LAB_CONFIG, "data_out_width": 8, "data_out_frac_width": 4}}}
    )
    assert info["quantized"] == ["embed", "mul"]
    formats = {meta.node.name: {n: t.format.name for n, t in meta.args.items()} for meta in graph.metas()}
    assert formats["mul"] == {"data_in_0": "integer", "data_in_1": "float"}
    assert formats["add"] == {"data_in_0": "float"}
    assert graph.model(ids).shape == (1, 16)
    verify_quantization_analysis_pass(graph)
    with pytest.raises(ValueError, match=r"node 'add' .add. has no floating-point operands"):
        quantize_transform_pass(graph, {"by": "name", "add": {"config": LAB_CONFIG}})


def test_inherited_keys_are_logged_once_per_config(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    graph = annotated(model, input=torch.randn(2, 4))
    config = {"name": "integer", "data_in_width": 6, "weight_width": 8}
    with caplog.at_level("INFO"):
        quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    assert [record.getMessage() for record in caplog.records if record.levelname == "INFO"] == [
        "quantize linear, batch_norm1d: bias_width not given; the parameters of data_in are used"
    ]


@pytest.mark.parametrize(
    ("pass_args", "message"),
    [
        (
            {"by": "type", "liner": {"config": LAB_CONFIG}},
            "'liner' is not an op that can be quantised; did you mean 'linear'?",
        ),
        ({"by": "type", "dropout": {"config": LAB_CONFIG}}, "'dropout' is not an op that can be quantised"),
        (
            {"by": "name", "seq_block_2": {"config": LAB_CONFIG}},
            "there is no node 'seq_block_2'; did you mean",
        ),
        ({"by": "name", "output": {"config": LAB_CONFIG}}, "node 'output' (output) cannot be quantised"),
        ({"by": "regex_name", "conv.*": {"config": LAB_CONFIG}}, "'conv.*' matches no node"),
        ({"by": "regex_name", "out.*": {"config": LAB_CONFIG}}, "'out.*' matches no node that can be quantised"),
        ({"by": "regex_name", "seq_(": {"config": LAB_CONFIG}}, "'seq_(' is not a regular expression"),
        ({"by": "typ"}, "'by' must be 'type' or 'name' or 'regex_name', got 'typ' (str); did you mean 'type'?"),
        ({}, "'by' is required"),
        ({"by": "type", "linear": LAB_CONFIG}, "'linear' must be a dict {'config': {'name': ..., ...}}"),
    ],
)
def test_mistakes_are_reported_and_nothing_is_changed(pass_args: dict[str, Any], message: str) -> None:
    graph = tiny_graph()
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is checked below
        quantize_transform_pass(graph, pass_args)
    assert message in str(error.value)
    assert kinds(graph) == ["BatchNorm1d", "ReLU", "Linear", "ReLU"]


def test_metadata_is_required() -> None:
    with pytest.raises(ValueError, match="run init_metadata_analysis_pass first"):
        quantize_transform_pass(MaseGraph(Tiny()), LAB_PASS_ARGS)


@pytest.mark.slow
def test_training_through_a_quantised_graph_learns() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    x, y = torch.randn(256, 16), torch.randint(0, 5, (256,))
    optimiser = torch.optim.Adam(graph.model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = F.cross_entropy(graph.model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


def test_verification_measures_the_error_of_each_operand() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    _, info = verify_quantization_analysis_pass(graph)
    weight = graph.model.get_parameter("seq_blocks.2.weight").detach().double()
    error = (weight * 16).round() / 16 - weight
    found = info["seq_blocks_2"]["weight"]
    assert list(info["seq_blocks_2"]) == ["data_in_0", "weight", "bias"]
    assert found["max_error"] == pytest.approx(error.abs().max().item())
    assert found["sqnr_db"] == pytest.approx(10 * torch.log10(weight.square().sum() / error.square().sum()).item())


def test_verification_fails_if_a_layer_contradicts_its_metadata() -> None:
    from chop.formats.integer import Integer

    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    layer: Any = graph.modules["seq_blocks.2"]
    layer.formats["weight"] = Integer(8, 7)
    with pytest.raises(
        ValueError, match=r"node 'seq_blocks_2': 'weight' holds .* which integer.* cannot represent"
    ):
        verify_quantization_analysis_pass(graph, {"dummy_in": {"x": torch.randn(8, 16)}})


@pytest.mark.parametrize(
    "write",
    [
        lambda y, relu: F.relu_(y),
        lambda y, relu: F.relu(y, True),
        lambda y, relu: F.relu(y, inplace=True),
        lambda y, relu: y.relu_(),
        lambda y, relu: relu(y),
    ],
)
def test_later_nodes_read_what_an_op_writes_into_its_input(write: Any) -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            y = x * 1.0
            before = y + 1
            write(y, self.relu)
            return y + before

    x = torch.tensor([-1.0, 2.0])
    graph, _ = quantize_transform_pass(annotated(Writes(), x=x), {"by": "type", "relu": {"config": LAB_CONFIG}})
    assert graph.model(x).tolist() == [0.0, 5.0]


def test_fraction_bits_can_be_chosen_from_data(caplog: pytest.LogCaptureFixture) -> None:
    config = {"name": "integer", "data_in_frac_width": "auto", "weight_frac_width": "auto", "bias_frac_width": 4}
    graph = annotated(nn.Sequential(nn.Linear(2, 1)), input=torch.tensor([[3.0, -1.0]]))
    graph.model.get_parameter("0.weight").data = torch.tensor([[0.4, 0.1]])
    with caplog.at_level("INFO", logger="chop"):
        graph, info = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    assert info["chosen"] == {"_0": {"data_in_0": [8, 5], "weight": [8, 8]}}  # 127/32 >= 3, 127/256 >= 0.4
    assert "quantize '_0': weight is integer(8, 8)" in caplog.text
    _, info = quantize_transform_pass(graph, {"by": "type", "linear": {"config": LAB_CONFIG}})
    assert info["chosen"] == {}


def test_a_learned_scale_starts_from_the_data_and_is_removed_with_its_format() -> None:
    learned = {
        "name": "integer",
        "data_in_scale": "learned",
        "weight_scale": "learned",
        "bias_scale": "power_of_two",
    }
    graph = tiny_graph()
    data = graph.metas()[3].value("data_in_0")
    assert data is not None
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": learned}})
    start = graph.model.get_parameter("seq_blocks.2.data_in_scale").item()

    def squared_error(step: float, data: Tensor = data) -> float:
        return ((data / step).round().clamp(-128, 127) * step - data).square().sum().item()

    assert squared_error(start) < squared_error(2 * data.abs().mean().item() / 127**0.5)  # as in the paper
    assert squared_error(start) <= min(
        squared_error(data.abs().max().item() / 127 * factor) for factor in (0.5, 1, 2)
    )
    graph, _ = quantize_transform_pass(graph, LAB_PASS_ARGS)
    assert graph.model.state_dict().keys() == Tiny().state_dict().keys()


def test_writing_in_place_after_writing_in_place() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 0
            z = F.relu(y, inplace=True)
            z.mul_(2)
            return y

    x = torch.tensor([-1.0, 0.5])
    graph, _ = quantize_transform_pass(annotated(Twice(), x=x), {"by": "type", "mul": {"config": LAB_CONFIG}})
    assert graph.model(x).tolist() == [0.0, 1.0]


def test_a_type_that_the_graph_does_not_have_is_named(caplog: pytest.LogCaptureFixture) -> None:
    quantize_transform_pass(tiny_graph(), {"by": "type", "conv2d": {"config": {"name": "integer"}}})
    assert "the graph has no 'conv2d' node, so its config has no effect" in caplog.text
