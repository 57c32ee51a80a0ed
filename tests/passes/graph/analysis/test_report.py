"""What the report passes print and write."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from chop.ir import MaseGraph
from chop.passes import ANALYSIS_PASSES
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
    report_graph_analysis_pass,
    report_node_meta_param_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_type_analysis_pass,
)
from samples import LAB_PASS_ARGS, Mixed, Tiny, annotated, tiny_graph

TINY_OVERVIEW = (
    "{'placeholder': 1, 'get_attr': 0, 'call_function': 0, 'call_method': 0, 'call_module': 4, 'output': 1}"
)


def cells(printed: str) -> list[list[str]]:
    """The first line of each row of a grid table, header included."""
    blocks = [block for block in printed.split("\n+") if block.count("|") > 1]
    return [[cell.strip() for cell in block.split("\n")[1].strip("|").split("|")] for block in blocks]


def test_report_graph_prints_graph_counts_and_layers(capsys: pytest.CaptureFixture[str]) -> None:
    graph = tiny_graph()
    returned, info = report_graph_analysis_pass(graph)
    assert (returned, info) == (graph, {})
    printed = capsys.readouterr().out
    assert printed.startswith(str(graph.fx_graph))
    overview, counts, title, layers = printed.rstrip("\n").split("\n")[-4:]
    assert (overview, counts, title) == ("Network overview:", TINY_OVERVIEW, "Layer types:")
    assert layers == str(list(graph.model.get_submodule("seq_blocks").children()))
    assert "Linear(in_features=16, out_features=5, bias=True)" in layers


def test_report_graph_needs_no_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    bare = MaseGraph(Tiny())
    report_graph_analysis_pass(bare)
    without = capsys.readouterr().out
    report_graph_analysis_pass(init_metadata_analysis_pass(bare)[0], {"file_name": None})
    assert capsys.readouterr().out == without
    assert TINY_OVERVIEW in without


def test_report_graph_writes_a_file_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_graph_analysis_pass(tiny_graph(), {"file_name": str(tmp_path / "new" / "report.txt")})
    assert capsys.readouterr().out == ""
    report_graph_analysis_pass(tiny_graph())
    assert (tmp_path / "new" / "report.txt").read_text() == capsys.readouterr().out


def test_report_graph_counts_every_kind_of_node(capsys: pytest.CaptureFixture[str]) -> None:
    # x; scale, shift; mul, add, gelu, cat, neg, sinc, bmm; relu, view, transpose, flatten, mean; first; output.
    report_graph_analysis_pass(MaseGraph(Mixed()))
    assert (
        "{'placeholder': 1, 'get_attr': 2, 'call_function': 7, 'call_method': 5, 'call_module': 1, 'output': 1}"
        in capsys.readouterr().out
    )


def test_report_graph_lists_a_layer_once_for_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    relu = nn.ReLU()
    report_graph_analysis_pass(MaseGraph(nn.Sequential(relu, relu)))
    assert capsys.readouterr().out.endswith("[ReLU(), ReLU()]\n")


def test_report_node_type(capsys: pytest.CaptureFixture[str]) -> None:
    report_node_type_analysis_pass(tiny_graph())
    assert cells(capsys.readouterr().out) == [
        ["Node name", "Fx Node op", "Mase type", "Mase op"],
        ["x", "placeholder", "placeholder", "placeholder"],
        ["seq_blocks_0", "call_module", "module", "batch_norm1d"],
        ["seq_blocks_1", "call_module", "module_related_func", "relu"],
        ["seq_blocks_2", "call_module", "module_related_func", "linear"],
        ["seq_blocks_3", "call_module", "module_related_func", "relu"],
        ["output", "output", "output", "output"],
    ]


def test_report_node_shape(capsys: pytest.CaptureFixture[str]) -> None:
    report_node_shape_analysis_pass(tiny_graph())
    printed = capsys.readouterr().out
    table = cells(printed)
    assert table[0] == ["Node name", "Fx Node op", "Mase type", "Mase op", "Input shapes", "Output shapes"]
    assert table[1][4:] == ["", "data_out_0: [8, 16]"]
    assert table[4][4:] == ["data_in_0: [8, 16]", "data_out_0: [8, 5]"]
    assert "weight: [5, 16]" in printed
    assert "bias: [5]" in printed


@pytest.mark.slow
def test_report_node_meta_param_shows_the_requested_parts(capsys: pytest.CaptureFixture[str]) -> None:
    graph = tiny_graph()
    report_node_meta_param_analysis_pass(graph)
    table = cells(capsys.readouterr().out)
    assert table[0][4:] == ["Common Param", "Hardware Param", "Software Param"]
    assert table[1][:4] == ["x", "placeholder", "placeholder", "placeholder"]
    assert table[1][5:] == ["{}", "{'args': {}, 'results': {'data_out_0': {'stat': {}}}}"]
    report_node_meta_param_analysis_pass(graph, {"which": ("software", "common")})
    assert cells(capsys.readouterr().out)[0][4:] == ["Common Param", "Software Param"]


def test_report_node_meta_param_shows_formats_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    for node in graph.fx_graph.nodes:
        node.meta["mase"].parameters["common"]["flop"] = 12345
    report_node_meta_param_analysis_pass(graph, {"which": ["common"]})
    printed = capsys.readouterr().out
    assert "'type': 'integer'" in printed
    assert "'precision': [8, 4]" in printed
    assert "'torch_dtype': torch.float32" in printed
    assert printed.count("'flop': 12345") == 6


def test_report_node_meta_param_leaves_out_the_values_of_large_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    report_node_meta_param_analysis_pass(tiny_graph(), {"which": ["common"]})
    printed = capsys.readouterr().out
    assert "'value': tensor of 128 values" in printed  # the input
    assert "'value': tensor([" in printed  # the bias of five classes


def test_report_node_meta_param_writes_the_table_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_node_meta_param_analysis_pass(tiny_graph(), {"save_path": tmp_path / "new" / "table.txt"})
    assert (tmp_path / "new" / "table.txt").read_text() == capsys.readouterr().out


def test_report_node_meta_param_reports_mistakes() -> None:
    with pytest.raises(ValueError, match=r"got 'sofware'.*did you mean 'software'"):
        report_node_meta_param_analysis_pass(tiny_graph(), {"which": ("sofware",)})
    with pytest.raises(ValueError, match="unknown key 'save_pth'; did you mean 'save_path'"):
        report_node_meta_param_analysis_pass(tiny_graph(), {"save_pth": "x"})


@pytest.mark.parametrize("name", ["report_node_type", "report_node_shape", "report_node_meta_param"])
def test_tables_name_the_pass_to_run_first(name: str) -> None:
    graph = MaseGraph(Tiny())
    with pytest.raises(ValueError, match="run init_metadata_analysis_pass first"):
        ANALYSIS_PASSES[name](graph)
    graph, _ = init_metadata_analysis_pass(graph)
    with pytest.raises(ValueError, match="run add_common_metadata_analysis_pass first"):
        ANALYSIS_PASSES[name](graph)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(2, 16)}})
    ANALYSIS_PASSES[name](graph)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["report_graph", "report_node_type", "report_node_shape", "report_node_meta_param"]
)
def test_every_kind_of_node_can_be_reported(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    everything = {"by": "type", "default": {"config": LAB_PASS_ARGS["linear"]["config"]}}
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    ANALYSIS_PASSES[name](graph)
    graph, _ = quantize_transform_pass(graph, everything)
    ANALYSIS_PASSES[name](graph)
    assert "first" in capsys.readouterr().out
