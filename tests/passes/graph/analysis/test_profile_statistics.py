"""Statistics of weights and activations, from running the model."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from chop.dataset import MaseDataModule
from chop.ir import MaseGraph
from chop.models import get_model_info
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
    quantize_transform_pass,
)
from chop.registry import UnknownNameError
from chop.tools import InputGenerator
from samples import LAB_PASS_ARGS, Mixed, Tiny, annotated, tiny_graph


def lab_args(**changes: Any) -> dict[str, Any]:
    """The arguments of the lab notebook, with four batches of eight rows."""
    return {
        "by": "type",
        "target_weight_nodes": ["linear"],
        "target_activation_nodes": ["relu"],
        "weight_statistics": {"variance_precise": {"device": "cpu", "dims": "all"}},
        "activation_statistics": {"range_quantile": {"device": "cpu", "dims": "all", "quantile": 0.97}},
        "input_generator": batches(),
        "num_samples": 32,
    } | changes


def batches(num_batches: int = 4, rows: int = 8, width: int = 16) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [{"x": torch.randn(rows, width, generator=generator)} for _ in range(num_batches)]


def software(graph: MaseGraph, name: str) -> dict[str, Any]:
    node = next(node for node in graph.fx_graph.nodes if node.name == name)
    found: dict[str, Any] = node.meta["mase"].parameters["software"]
    return found


def stat(graph: MaseGraph, name: str, entry: str = "data_in_0", kind: str = "args") -> dict[str, Any]:
    found: dict[str, Any] = software(graph, name)[kind][entry]["stat"]
    return found


def recorded(graph: MaseGraph, name: str, entry: str = "data_in_0", kind: str = "args") -> Tensor:
    data: Tensor = stat(graph, name, entry, kind)["record"]["data"]
    return data


RECORD: dict[str, Any] = {"activation_statistics": {"record": {}}}


def test_the_example_of_the_lab() -> None:
    model = Tiny()
    graph, info = profile_statistics_analysis_pass(annotated(model, x=torch.randn(8, 16)), lab_args())
    assert info["num_samples"] == 32
    for name in ("weight", "bias"):
        values = model.seq_blocks[2].get_parameter(name).detach().double().numpy()
        assert stat(graph, "seq_blocks_2", name) == {
            "variance_precise": {
                "mean": pytest.approx(values.mean()),
                "variance": pytest.approx(values.var(ddof=1)),
                "count": values.size,
            }
        }
    x = torch.cat([batch["x"] for batch in batches()])
    with torch.no_grad():
        normalized = model.seq_blocks[0].eval()(x)
        before_last = model.seq_blocks[2](normalized.relu())
    for name, values in (("seq_blocks_1", normalized.numpy()), ("seq_blocks_3", before_last.numpy())):
        low, high = np.quantile(values, [0.03, 0.97])
        found = stat(graph, name)["range_quantile"]
        assert found == pytest.approx(
            {"min": low, "max": high, "range": high - low, "count": values.size}, rel=1e-5
        )


def test_nodes_that_are_not_targets_have_an_empty_stat() -> None:
    graph, _ = profile_statistics_analysis_pass(tiny_graph(), lab_args())
    empty: dict[str, Any] = {"stat": {}}
    assert software(graph, "seq_blocks_0") == {
        "args": {"data_in_0": empty, "weight": empty, "bias": empty},
        "results": {"data_out_0": empty},
    }
    assert software(graph, "seq_blocks_2")["args"]["data_in_0"] == empty
    assert software(graph, "seq_blocks_1")["results"] == {"data_out_0": empty}


def test_with_the_input_generator_of_a_data_module() -> None:
    data = MaseDataModule("jsc", batch_size=8, model_name="jsc-tiny", num_rows=100)
    data.setup()
    generator = InputGenerator(data, get_model_info("jsc-tiny"), task="cls", which_dataloader="train")
    graph, info = profile_statistics_analysis_pass(tiny_graph(), lab_args(input_generator=generator))
    assert info["num_samples"] == 32
    assert stat(graph, "seq_blocks_1")["range_quantile"]["count"] == 32 * 16


@pytest.mark.parametrize("num_samples", [1, 8, 9, 30, 32])
def test_the_requested_number_of_rows_is_run(num_samples: int) -> None:
    graph, info = profile_statistics_analysis_pass(tiny_graph(), lab_args(num_samples=num_samples, **RECORD))
    assert info["num_samples"] == num_samples
    assert recorded(graph, "seq_blocks_1").shape == (num_samples, 16)


def test_no_more_batches_are_drawn_than_needed() -> None:
    taken = []

    def endless() -> Iterator[dict[str, Tensor]]:
        while True:
            taken.append(8)
            yield {"x": torch.randn(8, 16)}

    profile_statistics_analysis_pass(tiny_graph(), lab_args(input_generator=endless(), num_samples=20))
    assert len(taken) == 3


def test_too_few_batches_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    _, info = profile_statistics_analysis_pass(tiny_graph(), lab_args(num_samples=100))
    assert info["num_samples"] == 32
    assert "ended after 32 of 100 samples" in caplog.text
    with pytest.raises(ValueError, match="input_generator yields no batches"):
        profile_statistics_analysis_pass(tiny_graph(), lab_args(input_generator=[]))


def test_by_name() -> None:
    args = lab_args(by="name", target_weight_nodes=["seq_blocks_0"], target_activation_nodes=["seq_blocks_3"])
    graph, _ = profile_statistics_analysis_pass(tiny_graph(), args)
    assert stat(graph, "seq_blocks_0", "weight")["variance_precise"] == {"mean": 1, "variance": 0, "count": 16}
    assert stat(graph, "seq_blocks_0", "bias")["variance_precise"] == {"mean": 0, "variance": 0, "count": 16}
    assert stat(graph, "seq_blocks_2", "weight") == {}
    assert stat(graph, "seq_blocks_1") == {}
    assert stat(graph, "seq_blocks_3")["range_quantile"]["count"] == 32 * 5


def test_in_place_layers_do_not_change_what_is_recorded() -> None:
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(16, 5), nn.ReLU(inplace=True))
    given = batches()
    args = lab_args(
        input_generator=[{"input": batch["x"]} for batch in given],
        target_activation_nodes=["placeholder", "relu", "linear"],
        profile_output_activation=True,
        **RECORD,
    )
    graph, _ = profile_statistics_analysis_pass(annotated(model, input=torch.randn(8, 16)), args)
    x = torch.cat([batch["x"] for batch in batches()])
    assert torch.equal(torch.cat([batch["x"] for batch in given]), x)  # the batches are not changed either
    first, linear, last = (node.name for node in graph.fx_graph.nodes if node.op == "call_module")
    assert torch.equal(recorded(graph, "input_1", "data_out_0", "results"), x)
    assert torch.equal(recorded(graph, first), x)
    assert torch.equal(recorded(graph, linear), x.relu())
    assert torch.equal(recorded(graph, linear, "data_out_0", "results"), recorded(graph, last))
    assert recorded(graph, last).min() < 0
    assert torch.equal(recorded(graph, last, "data_out_0", "results"), recorded(graph, last).relu())


def test_functions_methods_and_unknown_ops() -> None:
    model = Mixed()
    graph = annotated(model, x=torch.randn(3, 6))
    args = lab_args(
        by="name",
        target_weight_nodes=["first"],
        target_activation_nodes=["relu", "cat", "mul", "sinc", "view", "bmm"],
        profile_output_activation=True,
        input_generator=batches(width=6),
        **RECORD,
    )
    graph, _ = profile_statistics_analysis_pass(graph, args)
    x = torch.cat([batch["x"] for batch in batches(width=6)])
    with torch.no_grad():
        hidden = model.first(x)
    assert torch.allclose(recorded(graph, "relu"), hidden)
    assert torch.allclose(recorded(graph, "cat", "data_in_0"), hidden.relu())
    assert torch.allclose(recorded(graph, "mul", "data_in_0"), model.scale.detach().repeat(4))  # once per batch
    assert torch.allclose(recorded(graph, "mul", "data_in_1"), hidden.relu())
    assert recorded(graph, "sinc").shape == (32, 8)
    assert recorded(graph, "view", "data_out_0", "results").shape == (32, 2, 4)
    assert recorded(graph, "bmm", "data_in_1").shape == (32, 4, 2)
    assert stat(graph, "first", "weight")["variance_precise"]["count"] == 24


class FunctionalWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 16))
        self.bias = nn.Parameter(torch.randn(5))
        self.mixing = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, bias=self.bias) @ self.mixing


def test_weights_that_functions_take_from_the_model() -> None:
    model = FunctionalWeights()
    targets = ["linear", "matmul"]
    args = lab_args(target_weight_nodes=targets, target_activation_nodes=targets, **RECORD)
    graph, _ = profile_statistics_analysis_pass(annotated(model, x=torch.randn(8, 16)), args)
    mean = stat(graph, "linear", "weight")["variance_precise"]["mean"]
    assert mean == pytest.approx(model.weight.detach().double().mean().item())
    assert stat(graph, "linear", "bias")["variance_precise"]["count"] == 5
    assert stat(graph, "matmul", "data_in_1")["variance_precise"]["count"] == 25
    assert list(stat(graph, "linear")) == list(stat(graph, "matmul")) == ["record"]


def test_a_quantised_graph_can_be_profiled() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    layer = graph.modules["seq_blocks.2"]
    graph, _ = profile_statistics_analysis_pass(graph, lab_args())
    mean = stat(graph, "seq_blocks_2", "weight")["variance_precise"]["mean"]
    assert mean == pytest.approx(layer.get_parameter("weight").detach().double().mean().item())


def test_the_model_stays_unchanged() -> None:
    model = nn.Sequential(nn.BatchNorm1d(16, track_running_stats=True), nn.Dropout(0.5), nn.ReLU())
    graph = annotated(model, input=torch.randn(8, 16))
    graph.model.train()
    before = copy.deepcopy(graph.model.state_dict())
    random_state = torch.get_rng_state()

    def shuffled() -> Iterator[dict[str, Tensor]]:
        while True:
            yield {"input": torch.randn(8, 16)}  # uses the global random generator

    profile_statistics_analysis_pass(graph, lab_args(input_generator=shuffled()))
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(module.training for module in graph.model.modules())
    for name, value in graph.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_arguments_are_not_changed_and_can_be_used_again() -> None:
    args = lab_args()
    given = copy.deepcopy(args)
    graph, _ = profile_statistics_analysis_pass(tiny_graph(), args)
    first = copy.deepcopy(software(graph, "seq_blocks_1"))
    assert args.keys() == given.keys()
    assert args["activation_statistics"] == given["activation_statistics"]
    graph, _ = profile_statistics_analysis_pass(graph, args)
    assert software(graph, "seq_blocks_1") == first


def test_several_statistics_and_dims() -> None:
    statistics: dict[str, Any] = {"range_min_max": {"dims": [0]}, "abs_mean": {"dims": None}, "variance_online": {}}
    graph, _ = profile_statistics_analysis_pass(tiny_graph(), lab_args(activation_statistics=statistics))
    found = stat(graph, "seq_blocks_1")
    assert list(found) == list(statistics)
    assert found["range_min_max"]["max"].shape == (16,)
    assert found["abs_mean"]["abs_mean"].shape == (8, 16)
    assert found["variance_online"]["count"] == 512


def test_weights_alone_need_no_inputs() -> None:
    args = {"by": "type", "target_weight_nodes": ["linear"], "weight_statistics": {"abs_mean": {}}}
    graph, info = profile_statistics_analysis_pass(tiny_graph(), args)
    assert info["num_samples"] == 0
    assert stat(graph, "seq_blocks_2", "bias")["abs_mean"]["count"] == 5


class Plain(fx.Interpreter):
    """The interpreter of torch.fx, which keeps the output of every node."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        self.found[n.name] = super().run_node(n)
        return self.found[n.name]


@pytest.mark.parametrize("by", ["type", "name"])
def test_all_nodes_can_be_targets(by: str) -> None:
    model = Mixed()
    args = lab_args(
        by=by,
        target_weight_nodes=["all"],
        target_activation_nodes=["all"],
        profile_output_activation=True,
        input_generator=batches(width=6),
        **RECORD,
    )
    graph, _ = profile_statistics_analysis_pass(annotated(model, x=torch.randn(3, 6)), args)
    x = torch.cat([batch["x"] for batch in batches(width=6)])
    plain = Plain(graph.model)
    with torch.no_grad():
        plain.run(x)
    for node in graph.fx_graph.nodes:
        if node.op not in ("get_attr", "output"):
            assert torch.allclose(recorded(graph, node.name, "data_out_0", "results"), plain.found[node.name])
    assert torch.allclose(recorded(graph, "output"), plain.found["output"])
    assert torch.allclose(recorded(graph, "bmm", "data_in_1"), plain.found["transpose"])
    assert software(graph, "scale")["results"] == {"data_out_0": {"stat": {}}}  # a weight is not an activation
    assert stat(graph, "first", "bias")["variance_precise"]["count"] == 4


def test_integers_booleans_and_complex_numbers(caplog: pytest.LogCaptureFixture) -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 4)

        def forward(self, x: Tensor) -> Tensor:
            mask = x > 4
            return torch.where(mask.unsqueeze(1), self.table(x), torch.fft.fft(self.table(x)).abs())

    given = [{"x": torch.tensor([1, 9, 5])}, {"x": torch.tensor([7, 0, 3])}]
    args = lab_args(
        target_activation_nodes=["all"],
        activation_statistics={"summary": {}},
        input_generator=given,
        num_samples=6,
        profile_output_activation=True,
    )
    graph, _ = profile_statistics_analysis_pass(annotated(Lookup(), x=torch.tensor([0])), args)
    indices = stat(graph, "table")["summary"]
    assert (indices["min"], indices["max"], indices["mean"], indices["zeros"]) == (0, 9, 25 / 6, 1)
    mask = stat(graph, "gt", "data_out_0", "results")["summary"]
    assert (mask["mean"], mask["zeros"], mask["count"]) == (0.5, 3, 6)
    assert caplog.text.count("'data_out_0' of node 'fft_fft' is complex and not profiled") == 1


def test_channels_have_separate_results() -> None:
    class Images(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x)

    x = torch.randn(6, 3, 4, 5)
    args = lab_args(
        activation_statistics={"summary": {"keep": [1]}},
        input_generator=[{"x": part} for part in x.split(2)],
        num_samples=6,
    )
    graph, _ = profile_statistics_analysis_pass(annotated(Images(), x=x), args)
    found = stat(graph, "relu")["summary"]
    data = x.double().numpy()
    np.testing.assert_allclose(found["mean"], data.mean((0, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(found["variance"], data.var((0, 2, 3), ddof=1), atol=1e-6)
    assert np.array_equal(found["min"], data.min((0, 2, 3)))
    assert found["counts"].shape == (3, 64)
    assert found["counts"].sum(1).tolist() == [120, 120, 120]


def test_several_inputs_are_cut_alike() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, scale: Tensor, power: float = 2.0) -> Tensor:
            return torch.relu(x * scale) ** power

    graph = annotated(Scaled(), x=torch.randn(8, 3), scale=torch.rand(8, 1))
    given = [{"x": torch.randn(8, 3), "scale": torch.rand(8, 1), "power": 3.0}] * 2
    args = lab_args(input_generator=given, num_samples=11, target_activation_nodes=["mul"], **RECORD)
    graph, _ = profile_statistics_analysis_pass(graph, args)
    assert recorded(graph, "mul", "data_in_0").shape == (11, 3)
    assert recorded(graph, "mul", "data_in_1").shape == (11, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_weight_nodes": ["liner"]}, "target_weight_nodes: there is no op 'liner'; did you mean 'linear'"),
        ({"target_activation_nodes": ["relv"]}, "there is no op 'relv'; did you mean 'relu'"),
        (
            {"by": "name", "target_weight_nodes": [], "target_activation_nodes": ["seq_block_1"]},
            "target_activation_nodes: there is no node 'seq_block_1'; did you mean 'seq_blocks_",
        ),
        ({"by": "types"}, "'by' must be 'type' or 'name', got 'types'"),
        ({"num_sample": 3}, "unknown key 'num_sample'; did you mean 'num_samples'"),
        ({"num_samples": 0}, "'num_samples' must be at least 1, got 0"),
        ({"input_generator": None}, "'input_generator' is required"),
        ({"input_generator": [torch.zeros(8, 16)]}, "must be dicts such as {'x': tensor}, got Tensor"),
        ({"input_generator": [{"y": torch.zeros(8, 16)}]}, "the model has no input 'y'"),
        ({"input_generator": [{"x": torch.zeros(8, 15)}]}, "node 'seq_blocks_0' does not run"),
        (
            {"weight_statistics": {"abs_mean": {"dim": "all"}}},
            "weight_statistics: 'abs_mean': unknown key 'dim'; did you mean 'dims'",
        ),
        (
            {"activation_statistics": {"abs_mean": {"dims": [3]}}},
            "'abs_mean' of 'data_in_0' at node 'seq_blocks_1': dims [3] do not fit a tensor of shape [8, 16]",
        ),
    ],
)
def test_mistakes_are_reported(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is checked below
        profile_statistics_analysis_pass(tiny_graph(), lab_args(**changes))
    assert message in str(raised.value)


@pytest.mark.parametrize("options", [{"dims": None}, {"keep": [0, 1]}])
def test_a_smaller_last_batch_is_skipped_if_rows_are_kept(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    args = lab_args(activation_statistics={"abs_mean": options}, num_samples=12)
    _, info = profile_statistics_analysis_pass(tiny_graph(), args)
    assert info["num_samples"] == 8
    (record,) = caplog.records
    assert record.getMessage().startswith("the last batch has 4 rows instead of 8 and is skipped")


def test_unknown_statistics_are_reported_before_the_model_runs() -> None:
    def never() -> Iterator[dict[str, Tensor]]:
        raise AssertionError("the model ran")
        yield {}

    wrong: dict[str, Any] = {"activation_statistics": {"range_minmax": {}}, "input_generator": never()}
    with pytest.raises(UnknownNameError, match="unknown statistic 'range_minmax'; did you mean 'range_min_max'"):
        profile_statistics_analysis_pass(tiny_graph(), lab_args(**wrong))


def test_an_op_that_is_not_in_the_graph_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    profile_statistics_analysis_pass(tiny_graph(), lab_args(target_weight_nodes=["conv2d", "relu"]))
    assert "the graph has no 'conv2d'" in caplog.text
    assert "node 'seq_blocks_1' (relu) has no weights to profile" in caplog.text


def test_the_pass_to_run_first_is_named() -> None:
    graph = MaseGraph(Tiny())
    with pytest.raises(ValueError, match="run init_metadata_analysis_pass first"):
        profile_statistics_analysis_pass(graph, lab_args())
    graph, _ = init_metadata_analysis_pass(graph)
    with pytest.raises(ValueError, match="run add_common_metadata_analysis_pass first"):
        profile_statistics_analysis_pass(graph, lab_args())
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(8, 16)}})
    with pytest.raises(ValueError, match="run add_software_metadata_analysis_pass first"):
        profile_statistics_analysis_pass(graph, lab_args())
