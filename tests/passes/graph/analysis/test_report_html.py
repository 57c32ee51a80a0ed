"""The data that the report shows."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.page.render import embedded
from chop.passes.graph import quantize_transform_pass, report_html_analysis_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from samples import LAB_PASS_ARGS, Mixed, Tiny, annotated


def pair() -> tuple[MaseGraph, MaseGraph]:
    """Return a graph, and a copy with its linear layer in fixed point."""
    original = annotated(Tiny().eval(), x=torch.randn(8, 16))
    graph, _ = quantize_transform_pass(deepcopy_mase_graph(original), LAB_PASS_ARGS)
    return original, graph


def written(graph: MaseGraph, tmp_path: Path, **args: Any) -> dict[str, Any]:
    """Write a report and return its document."""
    _, info = report_html_analysis_pass(graph, {"path": tmp_path / "report.html", **args})
    document: dict[str, Any] = info["document"]
    return document


def node_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(node for node in document["nodes"] if node["name"] == name)
    return found


def tensor_of(document: dict[str, Any], node: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in node_of(document, node)["tensors"] if each["name"] == name)
    return found


def test_the_file_is_written_and_its_size_returned(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page.html"
    _, info = report_html_analysis_pass(pair()[1], {"path": path, "title": "a page"})
    assert info["path"] == str(path)
    assert info["bytes"] == path.stat().st_size
    assert "<title>a page</title>" in path.read_text()
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


def test_without_batches_only_weights_are_shown(tmp_path: Path) -> None:
    _, graph = pair()
    document = written(graph, tmp_path)
    weight = graph.modules["seq_blocks.2"].weight
    assert isinstance(weight, Tensor)
    shown = document["histograms"][tensor_of(document, "seq_blocks_2", "weight")["histogram"]]
    assert shown["low"] == weight.min().item()
    assert shown["high"] == weight.max().item()
    assert shown["mean"] == pytest.approx(weight.double().mean().item(), abs=1e-9)
    assert shown["standard_deviation"] == pytest.approx(weight.double().std().item(), rel=1e-6)
    counts, _ = np.histogram(weight.detach().numpy(), bins=64)
    assert shown["counts"] == counts.tolist()
    assert tensor_of(document, "seq_blocks_2", "data_in_0")["histogram"] is None


def test_activations_come_from_all_batches(tmp_path: Path) -> None:
    _, graph = pair()
    batches = [{"x": torch.randn(5, 16)}, {"x": torch.randn(3, 16) * 3}]
    document = written(graph, tmp_path, input_generator=batches, num_samples=7)
    rows = torch.cat([batch["x"] for batch in batches])[:7]
    shown = document["histograms"][tensor_of(document, "x", "data_out_0")["histogram"]]
    assert (shown["low"], shown["high"]) == (rows.min().item(), rows.max().item())
    assert shown["count"] == sum(shown["counts"]) == 7 * 16
    assert document["notes"]["values"] == "Activations were measured on 7 rows."


class Functional(nn.Module):
    """A model whose weight does not belong to a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 16))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


def test_weights_of_functions_are_counted_once_for_all_batches(tmp_path: Path) -> None:
    graph = annotated(Functional().eval(), x=torch.randn(8, 16))
    graph, _ = quantize_transform_pass(graph, LAB_PASS_ARGS)
    document = written(graph, tmp_path, input_generator=[{"x": torch.randn(8, 16)} for _ in range(3)])
    for node, name in (("weight", "data_out_0"), ("linear", "weight")):
        assert document["histograms"][tensor_of(document, node, name)["histogram"]]["count"] == 48
    assert tensor_of(document, "linear", "weight")["rounding"]["count"] == 48
    assert document["histograms"][tensor_of(document, "x", "data_out_0")["histogram"]]["count"] == 3 * 8 * 16


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        (1, "Costs are for one sample, with inputs of shape [1, 16]. Bit operations are counted as 'bops'."),
        (8, "Costs are for one forward pass, with inputs of shape [8, 16]. Bit operations are counted as 'bops'."),
    ],
)
def test_the_page_says_which_run_the_costs_are_for(rows: int, note: str, tmp_path: Path) -> None:
    graph = annotated(Tiny().eval(), x=torch.randn(rows, 16))
    document = written(graph, tmp_path)
    assert document["notes"]["cost"] == note
    assert node_of(document, "seq_blocks_2")["cost"]["macs"] == rows * 16 * 5


@pytest.mark.slow
def test_a_tensor_that_nodes_share_has_one_histogram(tmp_path: Path) -> None:
    _, graph = pair()
    document = written(graph, tmp_path, input_generator=[{"x": torch.randn(4, 16)}])
    made = tensor_of(document, "seq_blocks_1", "data_out_0")["histogram"]
    assert tensor_of(document, "seq_blocks_2", "data_in_0")["histogram"] == made
    # ReLU works in place, so the tensor that it read has changed.
    assert tensor_of(document, "seq_blocks_1", "data_in_0")["histogram"] != made


def test_rounding_is_counted_against_the_format(tmp_path: Path) -> None:
    original = annotated(nn.Sequential(nn.Linear(4, 1, bias=False)), input=torch.ones(1, 4))
    weight = original.modules["0"].weight
    assert isinstance(weight, Tensor)
    weight.data = torch.tensor([[0.0, 0.01, 9.0, 0.5]])  # as integer(8, 4): 0, 0, 7.9375, 0.5
    graph, _ = quantize_transform_pass(original, LAB_PASS_ARGS)
    shown = tensor_of(written(graph, tmp_path), "_0", "weight")
    noise = 0.01**2 + (9 - 7.9375) ** 2
    assert shown["rounding"]["saturated"] == 1 / 4
    assert shown["rounding"]["zeroed"] == 1 / 3
    assert shown["rounding"]["sqnr_db"] == pytest.approx(10 * math.log10((0.01**2 + 81 + 0.25) / noise), rel=1e-5)
    representable = shown["representable"]
    assert (representable["low"], representable["high"], representable["step"], representable["num_values"]) == (
        -8.0,
        7.9375,
        0.0625,
        256,
    )
    assert representable["values"][:2] == [-8.0, -7.9375]


def test_the_original_is_shown_beside_the_transformed_graph(tmp_path: Path) -> None:
    original, graph = pair()
    batches = [{"x": torch.randn(8, 16)}]
    document = written(graph, tmp_path, original=original, input_generator=batches)
    linear = node_of(document, "seq_blocks_2")
    assert (linear["weight_format"], linear["before"]["weight_format"]) == ("integer(8, 4)", "float")
    assert (linear["bits_per_input"], linear["before"]["bits_per_input"]) == (8, 32)
    assert linear["cost"]["macs"] == linear["before"]["cost"]["macs"] == 8 * 16 * 5
    assert (linear["cost"]["bitops"], linear["before"]["cost"]["bitops"]) == (640 * 8 * 8, 640 * 32 * 32)
    assert tensor_of(document, "seq_blocks_2", "bias")["before"] == "float"
    with torch.no_grad():
        expected = original.model(**batches[0]).double()
        error = expected - graph.model(**batches[0]).double()
    ratio = 10 * math.log10(expected.square().sum().item() / error.square().sum().item())
    assert node_of(document, "seq_blocks_3")["error"]["sqnr_db"] == pytest.approx(ratio, abs=1e-3)
    figures = {figure["title"]: figure for figure in document["figures"]}
    assert (figures["Bit operations"]["value"], figures["Bit operations"]["before"]) == (40960, 655360)


@pytest.mark.slow
def test_batches_may_be_iterable_only_once(tmp_path: Path) -> None:
    original, graph = pair()
    rows = [{"x": torch.randn(4, 16)}, {"x": torch.randn(4, 16)}]
    again = written(graph, tmp_path, original=original, input_generator=rows, num_samples=6)
    once = written(graph, tmp_path, original=original, input_generator=iter(rows), num_samples=6)
    assert once["histograms"] == again["histograms"]
    assert node_of(once, "seq_blocks_2")["error"] == node_of(again, "seq_blocks_2")["error"]


def test_the_graph_and_the_arguments_are_not_changed(tmp_path: Path) -> None:
    original, graph = pair()
    graph.model.train()
    state = copy.deepcopy(graph.model.state_dict())
    args = {"path": tmp_path / "a.html", "original": original, "input_generator": [{"x": torch.randn(8, 16)}]}
    kept = dict(args)
    report_html_analysis_pass(graph, args)
    assert args == kept
    assert graph.model.training
    assert all(torch.equal(value, state[key]) for key, value in graph.model.state_dict().items())


def test_given_results_of_other_passes_are_shown(tmp_path: Path) -> None:
    _, graph = pair()
    alone = {"seq_blocks_2": {"sqnr_db": 1.5, "output_sqnr_db": 2.5, "loss_change": 0.25, "accuracy_change": -0.5}}
    run = {"model": "tiny", "dataset": "rows", "test": {"before": {"accuracy": 0.75}, "after": {"accuracy": 0.5}}}
    document = written(graph, tmp_path, sensitivity={"alone": alone, "all_but": {}, "formats": "ours"}, run=run)
    assert node_of(document, "seq_blocks_2")["sensitivity"] == {"alone": alone["seq_blocks_2"], "all_but": None}
    assert document["figures"][0] == {
        "name": "accuracy",
        "title": "Accuracy",
        "help": "share of correct predictions",
        "value": 0.5,
        "before": 0.75,
        "kind": "share",
        "better": "higher",
    }
    assert document["subtitle"] == "tiny · rows · 6 nodes"


def test_functions_methods_and_constants_are_nodes(tmp_path: Path) -> None:
    graph = annotated(Mixed().eval(), x=torch.randn(4, 6))
    document = written(graph, tmp_path, input_generator=[{"x": torch.randn(4, 6)}])
    assert [node["name"] for node in document["nodes"]] == [node.name for node in graph.fx_graph.nodes]
    edges = [[document["nodes"][i]["name"] for i in node["inputs"]] for node in document["nodes"]]
    assert edges == [[each.name for each in node.all_input_nodes] for node in graph.fx_graph.nodes]
    json.loads(embedded(document))


@pytest.mark.parametrize("values", [[float("nan")] * 4, [1.0, float("inf"), float("nan"), -2.0], [3.0] * 4, []])
def test_nan_infinite_constant_and_missing_values_are_counted(values: list[float], tmp_path: Path) -> None:
    graph = annotated(nn.Sequential(nn.ReLU()), input=torch.ones(2, 2))
    rows = torch.tensor(values).reshape(-1, 2) if values else torch.ones(1, 0)
    document = written(graph, tmp_path, input_generator=[{"input": rows}])
    shown = document["histograms"][tensor_of(document, "input_1", "data_out_0")["histogram"]]
    finite = [value for value in values if math.isfinite(value)]
    assert sum(shown["counts"]) == len(finite)
    assert shown["num_not_finite"] == len(values) - len(finite)


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    _, graph = pair()
    with pytest.raises(ValueError, match="'num_samples' must be at least 1, got 0"):
        report_html_analysis_pass(graph, {"path": tmp_path / "a.html", "num_samples": 0})
    with pytest.raises(ValueError, match="did you mean 'original'"):
        report_html_analysis_pass(graph, {"path": tmp_path / "a.html", "orignal": None})
    with pytest.raises(ValueError, match="yields no batches"):
        report_html_analysis_pass(graph, {"path": tmp_path / "a.html", "input_generator": []})
    assert not (tmp_path / "a.html").exists()
