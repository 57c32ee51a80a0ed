"""Bit operations of complete networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.dataset import get_dataset_info
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    count_bitops_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.graph.analysis.flop_estimator.calculator import calculate_modules

EIGHT_BITS = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4}},
}


def jsc_tiny() -> MaseGraph:
    return annotated(get_model("jsc-tiny", task="cls", dataset_info=get_dataset_info("jsc")))


def jsc_toy() -> MaseGraph:
    return annotated(get_model("jsc-toy", task="cls", dataset_info=get_dataset_info("jsc")))


def annotated(model: nn.Module) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    return add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(8, 16)}})[0]


def test_jsc_tiny() -> None:
    graph, info = count_bitops_analysis_pass(jsc_tiny())
    assert info == {
        "total_bitops": 1205504,
        "by_node": {
            "x": 0,
            "seq_blocks_0": 512 * 32 * 32,
            "seq_blocks_1": 128 * 32,
            "seq_blocks_2": 640 * (32 * 32 + 32),
            "seq_blocks_3": 40 * 32,
            "output": 0,
        },
        "not_counted": [],
    }
    assert isinstance(info["total_bitops"], int)
    for node in graph.fx_graph.nodes:
        assert node.meta["mase"].parameters["common"]["bitops"] == info["by_node"][node.name]


def test_jsc_tiny_in_eight_bits() -> None:
    graph, _ = quantize_transform_pass(jsc_tiny(), EIGHT_BITS)
    info = count_bitops_analysis_pass(graph)[1]
    assert info["by_node"]["seq_blocks_2"] == 640 * (8 * 8 + 8)
    assert info["total_bitops"] == 575744
    assert isinstance(info["total_bitops"], int)


def test_jsc_toy() -> None:
    # 1184 x 1024 + 296 x 32 = 1221888 outside the linear layers; 1856 MACs with 1056 or 72 bit operations inside.
    graph = jsc_toy()
    assert count_bitops_analysis_pass(graph)[1]["total_bitops"] == 3181824
    graph, _ = quantize_transform_pass(graph, EIGHT_BITS)
    assert count_bitops_analysis_pass(graph)[1]["total_bitops"] == 1355520


def test_bops_count_macs_only() -> None:
    graph = jsc_tiny()
    assert count_bitops_analysis_pass(graph, {"convention": "bops"})[1]["total_bitops"] == 640 * 1024
    graph, _ = quantize_transform_pass(graph, EIGHT_BITS)
    assert count_bitops_analysis_pass(graph, {"convention": "bops"})[1]["total_bitops"] == 640 * 64


def test_mistakes_are_reported() -> None:
    with pytest.raises(LookupError, match="unknown convention 'bopps'; did you mean 'bops'"):
        count_bitops_analysis_pass(jsc_tiny(), {"convention": "bopps"})
    with pytest.raises(ValueError, match="convention 'macs' does not count bit operations"):
        count_bitops_analysis_pass(jsc_tiny(), {"convention": "macs"})


def test_unknown_ops_are_listed_not_zero(caplog: pytest.LogCaptureFixture) -> None:
    class WithUnknown(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(torch.sinc(x))

    _, info = count_bitops_analysis_pass(annotated(WithUnknown()))
    assert info["not_counted"] == ["sinc"]
    assert info["by_node"] == {"x": 0, "relu": 128 * 32, "output": 0}
    assert info["total_bitops"] == 128 * 32
    assert "are not counted: sinc" in caplog.text


def bit_operations(graph: MaseGraph) -> int:
    """The course's second optional task, solved through the dict view of the metadata and calculate_modules."""
    total = 0
    for node in graph.fx_graph.nodes:
        common: Any = node.meta["mase"].parameters["common"]
        if common["mase_type"] not in ("module", "module_related_func"):
            continue
        args = common["args"]
        value_in, value_out = args["data_in_0"]["value"], common["results"]["data_out_0"]["value"]
        computations = calculate_modules(node.meta["mase"].module, [value_in], [value_out])["computations"]
        bits = args["data_in_0"]["precision"][0]
        match common["mase_op"]:
            case "linear":
                weight_bits, bias_bits = (args[name]["precision"][0] for name in ("weight", "bias"))
                total += computations * (bits * weight_bits + max(bias_bits, bits))
            case "relu":
                total += computations * bits
            case "batch_norm1d":
                total += computations * bits**2
        common["bitops"] = total
    return total


@pytest.mark.parametrize(("make", "total", "left"), [(jsc_tiny, 1205504, 575744), (jsc_toy, 3181824, 1355520)])
def test_a_users_pass_counts_the_same(make: Any, total: int, left: int) -> None:
    graph = make()
    assert bit_operations(graph) == total
    graph, _ = quantize_transform_pass(graph, EIGHT_BITS)
    assert bit_operations(graph) == left
