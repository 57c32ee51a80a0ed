"""Reports of large models in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from benchmarks.models import ResNet18
from torch import Tensor, nn

from browser.report_page import Block, choose, names, number, opened
from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    estimate_cost_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
    report_html_analysis_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from samples import annotated

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


class Flat(nn.Module):
    """A thousand pairs of functions outside of any module."""

    def forward(self, input: Tensor) -> Tensor:
        for _ in range(1000):
            input = torch.relu(input) + 0.01
        return input


@pytest.mark.parametrize("kind", ["modules", "flat"])
def test_a_graph_of_two_thousand_nodes_is_usable(kind: str, page: Page, tmp_path: Path) -> None:
    blocks = nn.Sequential(*[nn.Sequential(*[Block() for _ in range(25)]) for _ in range(20)])
    graph = annotated((blocks if kind == "modules" else Flat()).eval(), input=torch.randn(2, 8))
    assert len(graph.fx_graph.nodes) == 2002
    rows = [{"input": torch.randn(2, 8)}]
    _, info = report_html_analysis_pass(graph, {"path": tmp_path / "large.html", "input_generator": rows})
    assert info["bytes"] < 1_000_000, "the document of a large model is compressed"
    opened(page, tmp_path / "large.html")
    boxes = page.locator("#canvas .box")
    assert boxes.count() <= 70, "modules are closed at first"
    page.check("#all-nodes")
    assert page.locator("#table tbody tr").count() == 200, "a long table makes the page slow"
    assert page.locator("#filter-count").inner_text() == "2002 of 2002"
    page.click("#all-rows")
    assert page.locator("#table tbody tr").count() == 2002
    choose(page, "relu_444")
    assert page.locator("#canvas [data-node=relu_444]").get_attribute("aria-pressed") == "true"
    assert page.locator("#panel h2").inner_text() == "relu_444"
    page.click("#open-all")
    page.wait_for_function("document.querySelectorAll('#canvas .box').length > 500")
    page.click("#close-all")
    page.wait_for_function("document.querySelectorAll('#canvas .box').length < 70")
    page.locator("th[data-column=op] button").click()
    page.fill("#filter", "relu_444")
    assert names(page) == ["relu_444"]


def test_report_of_resnet_18_is_smaller_than_three_megabytes(page: Page, tmp_path: Path) -> None:
    original = annotated(ResNet18().eval(), x=torch.randn(1, 3, 64, 64))
    args = {"by": "type", "conv2d": {"config": {"name": "mxint"}}, "linear": {"config": {"name": "mxfp"}}}
    graph, _ = quantize_transform_pass(deepcopy_mase_graph(original), args)
    rows = [{"x": torch.randn(2, 3, 64, 64)}]
    path = tmp_path / "resnet.html"
    _, info = report_html_analysis_pass(graph, {"path": path, "original": original, "input_generator": rows})
    assert info["bytes"] == path.stat().st_size < 3_000_000
    opened(page, path)
    choose(page, "blocks_4_shortcut_0")
    macs = {name: cost["macs"] for name, cost in estimate_cost_analysis_pass(graph, None)[1]["by_node"].items()}
    assert number(page.locator("#panel data[data-key=macs]")) == macs["blocks_4_shortcut_0"]
    assert macs["blocks_4_shortcut_0"] == 128 * 256 * 4 * 4


def test_report_of_a_transformer_with_twelve_layers_is_closed_by_module(page: Page, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 64}
    batch = {"input_ids": torch.arange(20).reshape(2, 10)}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=64, **sizes)).eval()
    graph, _ = init_metadata_analysis_pass(MaseGraph(model, example_inputs=batch), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": batch})
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": {"name": "mxfp"}}})
    _, info = report_html_analysis_pass(graph, {"path": tmp_path / "llama.html", "input_generator": [batch]})
    assert info["bytes"] < 3_000_000
    opened(page, tmp_path / "llama.html")
    assert page.locator("#canvas .box").count() <= 70 < len(graph.fx_graph.nodes)
    choose(page, "model_layers_11_mlp_down_proj")
    assert page.locator("#panel h2").inner_text() == "model_layers_11_mlp_down_proj"
