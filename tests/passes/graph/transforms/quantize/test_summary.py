"""Tables of what quantisation changed."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

from chop.dataset import get_dataset_info
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes import PASSES
from chop.passes.graph import quantize_transform_pass, summarize_quantization_analysis_pass
from chop.passes.graph.transforms.quantize.summary import (
    graph_iterator_compare_nodes,
    graph_iterator_node_histogram,
)
from samples import LAB_CONFIG, LAB_PASS_ARGS, Mixed, annotated, tiny_graph

LAB = "data_in integer(8, 4), weight integer(8, 4), bias integer(8, 4)"
COLUMNS = ["Ori name", "New name", "MASE_TYPE", "Mase_OP", "Original type", "Quantized type", "Changed", "Formats"]
EVERYTHING: dict[str, Any] = {"by": "type", "default": {"config": LAB_CONFIG}}


def quantized(graph: MaseGraph, pass_args: dict[str, Any]) -> MaseGraph:
    return quantize_transform_pass(copy.deepcopy(graph), pass_args)[0]


def changed(ori_graph: MaseGraph, graph: MaseGraph) -> list[str]:
    table = graph_iterator_compare_nodes(ori_graph, graph, silent=True)
    return [str(name) for name in table["New name"][table["Changed"]]]


def test_the_table_of_jsc_tiny() -> None:
    graph = tiny_graph()
    table = graph_iterator_compare_nodes(graph, quantized(graph, LAB_PASS_ARGS))
    assert list(table.columns) == COLUMNS
    assert table.values.tolist() == [
        ["x", "x", "placeholder", "placeholder", "x", "x", False, ""],
        ["seq_blocks_0", "seq_blocks_0", "module", "batch_norm1d", "BatchNorm1d", "BatchNorm1d", False, ""],
        ["seq_blocks_1", "seq_blocks_1", "module_related_func", "relu", "ReLU", "ReLU", False, ""],
        [
            "seq_blocks_2",
            "seq_blocks_2",
            "module_related_func",
            "linear",
            "Linear",
            "LinearInteger",
            True,
            LAB,
        ],
        ["seq_blocks_3", "seq_blocks_3", "module_related_func", "relu", "ReLU", "ReLU", False, ""],
        ["output", "output", "output", "output", "output", "output", False, ""],
    ]


def test_the_histogram_of_a_bigger_network() -> None:
    class Test(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [16, 32, 16, 8, 5]
            layers: list[nn.Module] = [nn.BatchNorm1d(16), nn.ReLU(16)]  # type: ignore[arg-type]
            for before, after in pairwise(widths):
                layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
            self.seq_blocks = nn.Sequential(*layers)

        def forward(self, x: torch.Tensor) -> Any:
            return self.seq_blocks(x)

    graph = annotated(Test(), x=torch.randn(8, 16))
    histogram = graph_iterator_node_histogram(graph, quantized(graph, LAB_PASS_ARGS))
    assert histogram.index.name == "Original type"
    assert histogram.reset_index().values.tolist() == [
        ["BatchNorm1d", "batch_norm1d", 5, 0, 5],
        ["Linear", "linear", 4, 4, 0],
        ["ReLU", "relu", 5, 0, 5],
        ["output", "output", 1, 0, 1],
        ["x", "placeholder", 1, 0, 1],
    ]
    assert list(histogram.columns) == ["OP", "Total", "Changed", "Unchanged"]


def test_the_pass_prints_returns_and_writes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tiny_graph()
    new = quantized(graph, LAB_PASS_ARGS)
    returned, info = summarize_quantization_analysis_pass(graph, new, save_dir=tmp_path / "new" / "summary")
    assert returned is new
    assert list(info) == ["table", "histogram"]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.split("\n")]
    assert COLUMNS in rows
    assert ["Original type", "OP", "Total", "Changed", "Unchanged"] in rows
    assert ["ReLU", "relu", "2", "0", "2"] in rows
    saved = pd.read_csv(tmp_path / "new" / "summary" / "quantize_table.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(saved, info["table"], check_dtype=False)
    saved = pd.read_csv(tmp_path / "new" / "summary" / "quantize_histogram.csv", index_col=0)
    pd.testing.assert_frame_equal(saved, info["histogram"], check_dtype=False)


@pytest.mark.parametrize(("width", "columns"), [(80, 4), (120, 6), (200, 8)])
def test_the_table_of_nodes_fits_the_terminal(
    width: int, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    graph = tiny_graph()
    summarize_quantization_analysis_pass(graph, quantized(graph, LAB_PASS_ARGS))
    nodes, types = capsys.readouterr().out.split("Changes by original type:")
    lines = nodes.splitlines()[1:]
    assert max(map(len, lines)) <= width
    assert len(lines[0].strip("|").split("|")) == columns
    assert "LinearInteger" in nodes
    assert "data_in integer(8, 4)," in nodes
    assert "Unchanged" in types
    assert max(map(len, types.splitlines())) <= width


def test_the_table_of_types_leaves_out_ops_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    graph = tiny_graph()
    for width, has_ops in ((80, True), (60, False)):
        monkeypatch.setenv("COLUMNS", str(width))
        graph_iterator_node_histogram(graph, quantized(graph, LAB_PASS_ARGS))
        header = capsys.readouterr().out.splitlines()[1]
        assert len(header) <= width
        assert ("OP" in header.replace("|", " ").split()) == has_ops


def test_silent_prints_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = tiny_graph()
    graph_iterator_compare_nodes(graph, graph, save_path=str(tmp_path / "table.csv"), silent=True)
    assert capsys.readouterr().out == ""
    assert (tmp_path / "table.csv").read_text().startswith(",".join(COLUMNS))


def test_functions_methods_and_attributes() -> None:
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    table = graph_iterator_compare_nodes(graph, quantized(graph, EVERYTHING), silent=True)
    found = {name: (before, after) for _, name, _, _, before, after, *_ in table.values.tolist()}
    assert found == {
        "x": ("x", "x"),
        "first": ("Linear", "LinearInteger"),
        "relu": ("relu", "relu_integer"),
        "scale": ("scale", "scale"),
        "mul": ("mul", "mul_integer"),
        "shift": ("shift", "shift"),
        "add": ("add", "add_integer"),
        "gelu": ("gelu", "gelu_integer"),
        "cat": ("cat", "cat_integer"),
        "neg": ("neg", "neg_integer"),
        "sinc": ("sinc", "sinc"),
        "view": ("view", "view"),
        "transpose": ("transpose", "transpose"),
        "bmm": ("bmm", "bmm_integer"),
        "flatten": ("flatten", "flatten"),
        "mean": ("mean", "mean_integer"),
        "output": ("output", "output"),
    }
    assert table["Changed"].tolist() == (table["Original type"] != table["Quantized type"]).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny_graph, lambda: annotated(Mixed(), x=torch.randn(3, 6))])
def test_other_formats_of_the_same_class_are_a_change(make: Any) -> None:
    graph = make()
    eight = quantized(graph, EVERYTHING)
    wider = {"by": "type", "default": {"config": LAB_CONFIG | {"data_in_width": 16}}}
    computing = [meta.node.name for meta in graph.metas() if meta.quantizable]
    assert changed(eight, copy.deepcopy(eight)) == []
    assert changed(eight, quantized(graph, EVERYTHING)) == []
    assert changed(eight, quantized(graph, wider)) == computing
    assert changed(eight, graph) == computing
    assert (
        changed(eight, quantized(graph, {"by": "type", "default": {"config": {"name": "block_fp"}}})) == computing
    )


def test_only_the_weights_format_differs() -> None:
    graph = tiny_graph()
    finer = {"by": "type", "linear": {"config": LAB_CONFIG | {"weight_frac_width": 6}}}
    assert changed(quantized(graph, LAB_PASS_ARGS), quantized(graph, finer)) == ["seq_blocks_2"]


def test_graphs_of_different_models_are_refused() -> None:
    with pytest.raises(ValueError, match="only graphs of the same model can be compared"):
        graph_iterator_compare_nodes(tiny_graph(), annotated(Mixed(), x=torch.randn(3, 6)))


def test_the_original_needs_no_metadata_and_the_other_does() -> None:
    model = get_model("jsc-tiny", task="cls", dataset_info=get_dataset_info("jsc"))
    bare = MaseGraph(model)
    graph = annotated(model, x=torch.randn(8, 16))
    assert changed(bare, quantized(graph, LAB_PASS_ARGS)) == ["seq_blocks_2"]
    with pytest.raises(ValueError, match="run add_common_metadata_analysis_pass first"):
        graph_iterator_compare_nodes(graph, bare)


def test_the_registered_pass_takes_the_original_as_an_argument(tmp_path: Path) -> None:
    graph = tiny_graph()
    new = quantized(graph, LAB_PASS_ARGS)
    assert PASSES["summarize_quantization"] is summarize_quantization_analysis_pass
    _, info = PASSES["summarize_quantization"](new, {"original": graph, "save_dir": str(tmp_path)})
    pd.testing.assert_frame_equal(info["table"], summarize_quantization_analysis_pass(graph, new)[1]["table"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quantize_histogram.csv", "quantize_table.csv"]
    with pytest.raises(ValueError, match="'original', the graph to compare with, is required"):
        summarize_quantization_analysis_pass(new)


def test_both_graphs_may_be_given_by_name() -> None:
    graph = tiny_graph()
    _, info = summarize_quantization_analysis_pass(ori_graph=graph, graph=quantized(graph, LAB_PASS_ARGS))
    assert info["histogram"]["Changed"].sum() == 1


def test_nodes_that_were_folded_or_added_have_a_row() -> None:
    original = annotated(
        nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()).eval(), input=torch.randn(4, 8)
    )
    folded, _ = PASSES["fold_batch_norm"](copy.deepcopy(original))
    columns = ["Ori name", "New name", "Changed"]
    rows = graph_iterator_compare_nodes(original, folded, silent=True)[columns].to_numpy().tolist()
    assert rows[1:4] == [["_0", "_0", False], ["_1", "", True], ["_2", "_2", False]]
    rows = graph_iterator_compare_nodes(folded, original, silent=True)[columns].to_numpy().tolist()
    assert ["", "_1", True] in rows
