"""The cost of graphs, compared with the other passes and with hand-computed numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.counters import FunctionalAttention, GroupedConvolutions, LayerAttention, Mlp
from torch import Tensor, nn

from chop import cli
from chop.passes.graph import (
    calculate_avg_bits_mg_analysis_pass,
    count_bitops_analysis_pass,
    estimate_cost_analysis_pass,
    quantize_transform_pass,
)
from samples import LAB_PASS_ARGS, annotated, tiny_graph

DEVICE = {"name": "npu", "peak": {"8": 1e3, "32": 1e2}, "bandwidth": 1e3}


def test_each_node_has_every_number() -> None:
    graph = annotated(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), input=torch.randn(3, 4))
    _, info = estimate_cost_analysis_pass(graph, {"device": DEVICE})
    assert info["by_node"]["_0"] == {
        "op": "linear",
        "macs": 60,
        "flops": 120,
        "operations": 120,
        "bitops": 60 * 32 * 32,
        "parameters": 25,
        "weight_bits": 25 * 32,
        "activation_bits": 15 * 32,
        "moved_bits": 52 * 32,
        "intensity": 120 / 208,
        "energy_pj": pytest.approx(60 * 4.6 + 25 * 32 * 1300 / 64 + 27 * 32 * 100 / 64),
        "time_s": 1.2,
        "bound": "compute",
    }
    # 15 operations take 0.15 s, 120 bytes take 0.12 s.
    relu = info["by_node"]["_1"]
    assert (relu["macs"], relu["operations"], relu["time_s"], relu["bound"]) == (0, 15, 0.15, "compute")
    assert info["total"] == {
        "macs": 60,
        "flops": 135,
        "operations": 135,
        "bitops": 60 * 32 * 32,
        "parameters": 25,
        "weight_bits": 25 * 32,
        "activation_bits": (12 + 15 + 15) * 32,
        "moved_bits": 82 * 32,
        "intensity": 135 / 328,
        "energy_pj": pytest.approx(info["by_node"]["_0"]["energy_pj"] + 15 * 0.9 + 30 * 32 * 100 / 64),
        "time_s": pytest.approx(1.35),
        "peak_activation_bits": 30 * 32,
        "peak_node": "_1",
        "average_weight_bits": 32.0,
        "average_activation_bits": 32.0,
        "quantized_weight_bits": 32.0,
        "quantized_activation_bits": 32.0,
    }
    assert info["unknown"] == []


def test_numbers_agree_with_the_other_passes_and_with_each_other() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    for convention in ("mase", "bops", "uniq", "ebops"):
        _, info = estimate_cost_analysis_pass(graph, {"convention": convention})
        _, counted = count_bitops_analysis_pass(graph, {"convention": convention})
        assert info["total"]["bitops"] == counted["total_bitops"] > 0
    _, averages = calculate_avg_bits_mg_analysis_pass(graph)
    assert info["total"]["average_weight_bits"] == averages["w_avg_bit"]
    assert info["total"]["average_activation_bits"] == averages["data_avg_bit"]
    for key in ("macs", "flops", "operations", "bitops", "activation_bits", "moved_bits", "weight_bits"):
        assert info["total"][key] == sum(node[key] for node in info["by_node"].values())
    # 640 integer MACs; 512, 128 and 40 other operations in float.
    assert (info["total"]["operations"], info["total"]["flops"]) == (2 * 640 + 680, 680)
    assert info["total"]["weight_bits"] == 32 * 32 + 85 * 8


def test_the_graph_and_the_arguments_stay_unchanged() -> None:
    graph = tiny_graph()
    before = {meta.node.name: str(meta.parameters) for meta in graph.metas()}
    arguments: dict[str, Any] = {"device": {"name": "npu", "peak": {"32": 1}, "bandwidth": 1}}
    estimate_cost_analysis_pass(graph, arguments)
    assert {meta.node.name: str(meta.parameters) for meta in graph.metas()} == before
    assert arguments == {"device": {"name": "npu", "peak": {"32": 1}, "bandwidth": 1}}


def test_info_can_be_written_as_json() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    _, info = estimate_cost_analysis_pass(graph, {"convention": "uniq", "device": DEVICE})
    assert json.loads(json.dumps(info)) == info


def test_without_a_device_there_is_no_time() -> None:
    _, info = estimate_cost_analysis_pass(tiny_graph())
    assert info["total"]["time_s"] is None
    assert {(node["time_s"], node["bound"]) for node in info["by_node"].values()} == {(None, None)}


def test_unknown_ops_are_listed_and_never_zero(caplog: pytest.LogCaptureFixture) -> None:
    class WithUnknown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.SyncBatchNorm(4)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.norm(x))

    _, info = estimate_cost_analysis_pass(annotated(WithUnknown(), x=torch.randn(3, 4)), {"device": DEVICE})
    assert info["unknown"] == ["norm"]
    norm = info["by_node"]["norm"]
    assert [norm[key] for key in ("macs", "flops", "operations", "bitops", "intensity", "energy_pj", "time_s")] == [
        None
    ] * 7
    assert norm["parameters"] == info["total"]["parameters"] == 2 * 4
    assert info["total"]["operations"] == 12
    assert "unknown operations are not counted: norm" in caplog.text


def test_energy_can_be_given_by_the_user() -> None:
    graph = annotated(nn.Sequential(nn.Linear(4, 5)), input=torch.randn(3, 4))
    table = {"float_add": {"32": 1}, "float_multiply": {"32": 2}, "memory": {"sram": 0}}
    arguments = {"energy": {**table, "weights": "sram", "activations": "sram"}}
    assert estimate_cost_analysis_pass(graph, arguments)[1]["total"]["energy_pj"] == 60 * 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"convention": "ebop"}, "unknown convention 'ebop'; did you mean 'ebops'"),
        ({"convention": "macs"}, "convention 'macs' does not count bit operations"),
        ({"device": {"name": "a"}}, "device: 'peak' is required"),
        ({"device": {"name": "a", "peak": {"8": 1}, "bandwidth": 1}}, "device 'a' lists peaks up to 8 bits only"),
        ({"energy": {"weights": "disk"}}, "unknown memory 'disk'"),
    ],
)
def test_mistakes_are_reported(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, LookupError), match=said):
        estimate_cost_analysis_pass(tiny_graph(), arguments)


@pytest.mark.slow
def test_through_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "cost.toml"
    config.write_text(
        'model = "jsc-tiny"\ndataset = "jsc"\nbatch_size = 8\n'
        '[passes.quantize]\nby = "type"\n[passes.quantize.linear.config]\nname = "integer"\n'
        "data_in_width = 8\nweight_width = 8\nbias_width = 8\n"
        '[passes.estimate_cost]\nconvention = "bops"\n'
        '[passes.estimate_cost.device]\nname = "npu"\nbandwidth = 1e9\npeak = { 8 = 4e9, 32 = 1e9 }\n'
        "[passes.estimate_cost.energy.memory]\nsram = 0.2\ndram = 20\ncache_1mb = 1.5\n"
        "[transform]\nevaluate = false\n"
    )
    assert cli.main(["transform", "--config", str(config), "--project-dir", str(tmp_path / "out")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("estimate_cost ")]
    found = {what: (before, after) for _, what, before, after in rows}
    assert found["bitops"] == (str(640 * 32 * 32), str(640 * 8 * 8))
    assert found["weight_bits"] == (str(117 * 32), str(32 * 32 + 85 * 8))
    assert {"macs", "energy_pj", "time_s", "peak_activation_bits", "average_weight_bits"} <= found.keys()


# Two sequences of 10: four projections of 32 x 32 for each of 20 rows; 2 x 4 heads x 10 x 10 = 800 scores, each of
# 8 products with a key and 8 with a value.
ATTENTION = 4 * 20 * 32 * 32 + 800 * (8 + 8)


@pytest.mark.parametrize(
    ("model", "shape", "macs"),
    [
        (Mlp(), (7, 16), 7 * (16 * 64 + 64 * 64 + 64 * 10)),
        # 2 x 8 results at 9 x 9 positions, 9 products each; 2 x 12 results at 5 x 5 positions, 2 x 9 products each.
        (GroupedConvolutions(), (2, 8, 9, 9), 2 * 8 * 81 * 9 + 2 * 12 * 25 * 18),
        (FunctionalAttention(), (2, 10, 32), ATTENTION),
        (LayerAttention(), (2, 10, 32), ATTENTION),
    ],
)
def test_macs_agree_with_hand_computed_numbers(model: nn.Module, shape: tuple[int, ...], macs: int) -> None:
    _, info = estimate_cost_analysis_pass(annotated(model, x=torch.randn(shape)))
    assert info["unknown"] == []
    assert info["total"]["macs"] == macs
    assert info["total"]["parameters"] == sum(parameter.numel() for parameter in model.parameters())


def test_results_are_stored_in_the_format_of_their_reader() -> None:
    graph = annotated(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), input=torch.randn(2, 4))
    config = {"by": "name", "_1": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4}}}
    graph, _ = quantize_transform_pass(graph, config)
    assert graph.metas()[2].args["data_in_0"].format.bits == 8
    _, info = estimate_cost_analysis_pass(graph)
    assert info["by_node"]["_0"]["activation_bits"] == 8 * 8
    assert info["by_node"]["_0"]["moved_bits"] == (8 + 20) * 32 + 8 * 8
