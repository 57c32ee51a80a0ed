"""Operations of complete networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.cost import CONVENTIONS
from chop.dataset import get_dataset_info
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes import PASSES
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    count_flops_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.graph.analysis.flop_estimator.calculator import calculate_modules

EIGHT_BITS = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {
        "config": {
            "name": "integer",
            "data_in_width": 8,
            "data_in_frac_width": 4,
            "weight_width": 8,
            "weight_frac_width": 4,
            "bias_width": 8,
            "bias_frac_width": 4,
        }
    },
}


def jsc_tiny() -> MaseGraph:
    return annotated(get_model("jsc-tiny", task="cls", dataset_info=get_dataset_info("jsc")))


def jsc_toy() -> MaseGraph:
    return annotated(get_model("jsc-toy", task="cls", dataset_info=get_dataset_info("jsc")))


def annotated(model: nn.Module) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    return add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(8, 16)}})[0]


def test_jsc_tiny() -> None:
    # Batch 8. Batch norm 4 x 8 x 16 = 512, relu 8 x 16 = 128, linear 8 x 16 x 5 = 640, relu 8 x 5 = 40.
    graph, info = count_flops_analysis_pass(jsc_tiny())
    assert info == {
        "total_flops": 1320,
        "total_operations": 1320,
        "by_node": {
            "x": 0,
            "seq_blocks_0": 512,
            "seq_blocks_1": 128,
            "seq_blocks_2": 640,
            "seq_blocks_3": 40,
            "output": 0,
        },
        "not_counted": [],
    }
    for node in graph.fx_graph.nodes:
        assert node.meta["mase"].parameters["common"]["flop"] == info["by_node"][node.name]


def test_integer_operations_are_not_flops() -> None:
    graph, _ = quantize_transform_pass(jsc_tiny(), EIGHT_BITS)
    info = count_flops_analysis_pass(graph)[1]
    assert (info["total_flops"], info["total_operations"]) == (680, 1320)
    assert info["by_node"]["seq_blocks_2"] == 0


def test_jsc_toy() -> None:
    # Batch norms 4 x 8 x (16 + 8 + 8 + 5) = 1184, relus 8 x 37 = 296, linear 8 x (128 + 64 + 40) = 1856.
    graph = jsc_toy()
    assert count_flops_analysis_pass(graph)[1]["total_flops"] == 3336
    graph, _ = quantize_transform_pass(graph, EIGHT_BITS)
    info = count_flops_analysis_pass(graph)[1]
    assert (info["total_flops"], info["total_operations"]) == (1480, 3336)


@pytest.mark.parametrize(("convention", "total"), [("mase", 1320), ("macs", 640), ("flops", 1960)])
def test_conventions(convention: str, total: int) -> None:
    assert count_flops_analysis_pass(jsc_tiny(), {"convention": convention})[1]["total_flops"] == total


def test_mistakes_are_reported() -> None:
    with pytest.raises(LookupError, match="unknown convention 'maze'; did you mean 'mase'"):
        count_flops_analysis_pass(jsc_tiny(), {"convention": "maze"})
    with pytest.raises(ValueError, match="unknown key 'conventoin'; did you mean 'convention'"):
        count_flops_analysis_pass(jsc_tiny(), {"conventoin": "mase"})
    with pytest.raises(ValueError, match="run init_metadata_analysis_pass first"):
        count_flops_analysis_pass(MaseGraph(nn.Sequential(nn.ReLU())))
    assert "mase" in CONVENTIONS
    assert PASSES["count_flops"] is count_flops_analysis_pass


class WithUnknown(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.sinc(x))


def test_unknown_ops_are_listed_not_zero(caplog: pytest.LogCaptureFixture) -> None:
    graph, info = count_flops_analysis_pass(annotated(WithUnknown()))
    assert info["not_counted"] == ["sinc"]
    assert info["by_node"] == {"x": 0, "relu": 128, "output": 0}
    assert info["total_flops"] == info["total_operations"] == 128
    noted = {node.name: node.meta["mase"].parameters["common"]["flop"] for node in graph.fx_graph.nodes}
    assert noted["sinc"] is None
    assert "are not counted: sinc" in caplog.text


class Functional(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(x).sigmoid()
        return torch.matmul(y, x.t()) + 1


def test_quantised_functions_and_methods_are_not_flops() -> None:
    graph = annotated(Functional())
    # relu and sigmoid 128 each, 8 x 8 results of 16 MACs, 64 additions; moving data is free.
    assert count_flops_analysis_pass(graph)[1]["total_flops"] == 128 + 128 + 1024 + 64
    eight_bits = {"config": {"name": "integer", "data_in_width": 8}}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "sigmoid": eight_bits, "matmul": eight_bits})
    info = count_flops_analysis_pass(graph)[1]
    assert info["total_flops"] == 128 + 64
    assert info["total_operations"] == 1344


def floating_point_operations(graph: MaseGraph) -> int:
    """The course's first optional task, solved through the dict view of the metadata and calculate_modules."""
    total = 0
    for node in graph.fx_graph.nodes:
        if node.op != "call_module":
            continue
        common: Any = node.meta["mase"].parameters["common"]
        before, after = common["args"]["data_in_0"], common["results"]["data_out_0"]
        found = calculate_modules(
            module=node.meta["mase"].module, in_data=[before["value"]], out_data=[after["value"]]
        )
        node.meta["mase"].parameters["common"]["flop"] = found["computations"] if before["type"] == "float" else 0
        total += node.meta["mase"].parameters["common"]["flop"]
    return total


@pytest.mark.parametrize(("make", "total", "left"), [(jsc_tiny, 1320, 680), (jsc_toy, 3336, 1480)])
def test_a_users_pass_counts_the_same(make: Any, total: int, left: int) -> None:
    graph = make()
    assert floating_point_operations(graph) == total
    graph, _ = quantize_transform_pass(graph, EIGHT_BITS)
    assert floating_point_operations(graph) == left
    by_hand = {n.name: n.meta["mase"].parameters["common"].get("flop", 0) for n in graph.fx_graph.nodes}
    assert count_flops_analysis_pass(graph)[1]["by_node"] == by_hand
