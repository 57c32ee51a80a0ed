"""What notebooks show: escaped tables, images without files, and a drawing of the graph."""

from __future__ import annotations

import io
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from chop.config import INFO_KINDS
from chop.display.html import MAX_ROWS, html_image, html_table
from chop.formats.integer import Integer
from chop.info import find_kind
from chop.passes.graph import (
    profile_statistics_analysis_pass,
    quantize_transform_pass,
    report_node_shape_analysis_pass,
)
from samples import annotated, tiny_graph


def test_tables_are_escaped_and_cut() -> None:
    text = html_table(("<a>",), [("x & y",)] * (MAX_ROWS + 3), "a < b")
    assert "<th>&lt;a&gt;</th>" in text
    assert text.count("<td>x &amp; y</td>") == MAX_ROWS
    assert "<caption>a &lt; b</caption>" in text
    assert text.endswith("<p>3 more rows</p>")


@pytest.mark.slow
def test_printed_tables_are_html_in_notebooks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[Any] = []
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    graph = tiny_graph()
    report_node_shape_analysis_pass(graph)
    text = capsys.readouterr().out
    assert "| seq_blocks_2 " in text
    monkeypatch.setattr(sys, "stdout", stream())
    monkeypatch.setattr("IPython.display.display", shown.append)
    report_node_shape_analysis_pass(graph)
    assert "<td>seq_blocks_2</td>" in shown[0].data
    assert "weight: [5, 16]\n" in shown[0].data  # a cell with several lines keeps them
    assert "white-space: pre" in shown[0].data


def test_an_image_contains_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"png")
    assert 'src="data:image/png;base64,cG5n"' in html_image(tmp_path / "a.png")


def test_a_graph_is_a_table_of_nodes_with_formats() -> None:
    graph, _ = quantize_transform_pass(
        tiny_graph(), {"by": "type", "linear": {"config": {"name": "integer", "weight_width": 4}}}
    )
    text = graph._repr_html_()
    assert "<td>seq_blocks_2</td><td>linear</td>" in text
    assert "weight [5, 16] integer(4, 2)" in text


def test_metadata_is_described_without_values() -> None:
    meta = annotated(nn.Sequential(nn.Linear(3, 2)), input=torch.randn(4, 3)).metas()[1]
    assert repr(meta) == ("NodeMeta(_0: linear; data_in_0 [4, 3], weight [2, 3], bias [2] -> data_out_0 [4, 2])")
    assert "tensor(" not in repr(meta.args["data_in_0"])


def test_a_drawing_has_a_box_per_node_and_an_edge_per_input() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) + torch.sigmoid(x)

    drawing = annotated(Branches(), x=torch.randn(2, 3)).draw()
    root = ElementTree.fromstring(drawing._repr_html_())
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{name}g")) == 5
    assert len(root.findall(f"{name}path")) == 5  # x -> relu, x -> sigmoid, both -> add, add -> output
    corners = {(box.get("x"), box.get("y")) for box in root.iter(f"{name}rect")}
    assert len(corners) == 5
    assert "characters of SVG" in repr(drawing)


@pytest.mark.slow
@pytest.mark.parametrize("kind", INFO_KINDS)
def test_tables_of_info_have_html(kind: str) -> None:
    assert find_kind(kind).table()._repr_html_().startswith("<table>")


def test_a_format_shows_its_parameters() -> None:
    text = Integer(6, 2)._repr_html_()
    assert "<caption>integer(6, 2): 6 bits per element</caption>" in text
    assert "<td>frac_width</td><td>2</td>" in text


def test_a_profile_shows_single_numbers() -> None:
    arguments = {
        "by": "type",
        "target_weight_nodes": ["linear"],
        "weight_statistics": {"variance_precise": {"dims": "all"}, "range_min_max": {"dims": None}},
        "activation_statistics": {},
    }
    _, info = profile_statistics_analysis_pass(tiny_graph(), arguments)
    text = info["profile"]._repr_html_()
    assert "<td>seq_blocks_2</td><td>weight</td><td>variance_precise</td>" in text
    assert "count 80" in text
