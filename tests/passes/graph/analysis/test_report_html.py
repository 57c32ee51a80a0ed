"""What the report shows, and the page that it is embedded in."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS, Format
from chop.formats.integer import Integer
from chop.ir import MaseGraph
from chop.page.curves import MOST_POINTS, curves_of
from chop.page.render import LIBRARIES, embedded, render
from chop.page.representable import MOST_DRAWN, representable
from chop.page.scopes import scopes_of
from chop.page.search_front import search_of
from chop.passes.graph import quantize_transform_pass, report_html_analysis_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from samples import LAB_PASS_ARGS, Mixed, Tiny, annotated

ASSETS = files("chop.page").joinpath("assets")


def pair() -> tuple[MaseGraph, MaseGraph]:
    """A graph, and the same with its linear layer in fixed point."""
    original = annotated(Tiny().eval(), x=torch.randn(8, 16))
    graph, _ = quantize_transform_pass(deepcopy_mase_graph(original), LAB_PASS_ARGS)
    return original, graph


def written(graph: MaseGraph, tmp_path: Path, **args: Any) -> dict[str, Any]:
    """The document of a report."""
    _, info = report_html_analysis_pass(graph, {"path": tmp_path / "report.html", **args})
    document: dict[str, Any] = info["document"]
    return document


def node_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(node for node in document["nodes"] if node["name"] == name)
    return found


def tensor_of(document: dict[str, Any], node: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in node_of(document, node)["tensors"] if each["name"] == name)
    return found


def test_the_file_is_where_it_should_be_and_as_large_as_told(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page.html"
    _, info = report_html_analysis_pass(pair()[1], {"path": path, "title": "a page"})
    assert info["path"] == str(path)
    assert info["bytes"] == path.stat().st_size
    assert "<title>a page</title>" in path.read_text()
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


def test_without_batches_weights_are_shown_and_activations_are_not(tmp_path: Path) -> None:
    _, graph = pair()
    document = written(graph, tmp_path)
    weight = graph.modules["seq_blocks.2"].weight
    assert isinstance(weight, Tensor)
    shown = document["histograms"][tensor_of(document, "seq_blocks_2", "weight")["histogram"]]
    assert shown["low"] == weight.min().item()
    assert shown["high"] == weight.max().item()
    assert shown["mean"] == pytest.approx(weight.double().mean().item(), abs=1e-9)
    assert shown["deviation"] == pytest.approx(weight.double().std().item(), rel=1e-6)
    counts, _ = np.histogram(weight.detach().numpy(), bins=64)
    assert shown["counts"] == counts.tolist()
    assert tensor_of(document, "seq_blocks_2", "data_in_0")["histogram"] is None


def test_activations_are_those_of_all_batches(tmp_path: Path) -> None:
    _, graph = pair()
    batches = [{"x": torch.randn(5, 16)}, {"x": torch.randn(3, 16) * 3}]
    document = written(graph, tmp_path, input_generator=batches, num_samples=7)
    rows = torch.cat([batch["x"] for batch in batches])[:7]
    shown = document["histograms"][tensor_of(document, "x", "data_out_0")["histogram"]]
    assert (shown["low"], shown["high"]) == (rows.min().item(), rows.max().item())
    assert shown["count"] == sum(shown["counts"]) == 7 * 16
    assert document["notes"]["values"] == "Activations are those of 7 rows."


class Functional(nn.Module):
    """A weight that is no layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 16))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


def test_weights_of_functions_are_counted_once_however_many_batches_there_are(tmp_path: Path) -> None:
    graph = annotated(Functional().eval(), x=torch.randn(8, 16))
    graph, _ = quantize_transform_pass(graph, LAB_PASS_ARGS)
    document = written(graph, tmp_path, input_generator=[{"x": torch.randn(8, 16)} for _ in range(3)])
    for node, name in (("weight", "data_out_0"), ("linear", "weight")):
        assert document["histograms"][tensor_of(document, node, name)["histogram"]]["count"] == 48
    assert tensor_of(document, "linear", "weight")["rounding"]["count"] == 48
    assert document["histograms"][tensor_of(document, "x", "data_out_0")["histogram"]]["count"] == 3 * 8 * 16


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (1, "Costs are for one sample: a run on inputs of [1, 16]."),
        (8, "Costs are for one run on inputs of [8, 16]."),
    ],
)
def test_the_page_says_what_costs_are_of(rows: int, told: str, tmp_path: Path) -> None:
    graph = annotated(Tiny().eval(), x=torch.randn(rows, 16))
    document = written(graph, tmp_path)
    assert document["notes"]["cost"] == told
    assert node_of(document, "seq_blocks_2")["cost"]["macs"] == rows * 16 * 5


def test_a_tensor_that_one_node_makes_and_another_reads_is_there_once(tmp_path: Path) -> None:
    _, graph = pair()
    document = written(graph, tmp_path, input_generator=[{"x": torch.randn(4, 16)}])
    made = tensor_of(document, "seq_blocks_1", "data_out_0")["histogram"]
    assert tensor_of(document, "seq_blocks_2", "data_in_0")["histogram"] == made
    # ReLU works in place: what it read is not what is there afterwards.
    assert tensor_of(document, "seq_blocks_1", "data_in_0")["histogram"] != made


def test_rounding_is_counted_against_the_format(tmp_path: Path) -> None:
    original = annotated(nn.Sequential(nn.Linear(4, 1, bias=False)), input=torch.ones(1, 4))
    weight = original.modules["0"].weight
    assert isinstance(weight, Tensor)
    weight.data = torch.tensor([[0.0, 0.01, 9.0, 0.5]])  # of 8 bits, 4 of them fraction: 0, 0, 7.9375, 0.5
    graph, _ = quantize_transform_pass(original, LAB_PASS_ARGS)
    shown = tensor_of(written(graph, tmp_path), "_0", "weight")
    noise = 0.01**2 + (9 - 7.9375) ** 2
    assert shown["rounding"]["saturated"] == 1 / 4
    assert shown["rounding"]["zeroed"] == 1 / 3
    assert shown["rounding"]["sqnr_db"] == pytest.approx(10 * math.log10((0.01**2 + 81 + 0.25) / noise), rel=1e-5)
    grid = shown["grid"]
    assert (grid["low"], grid["high"], grid["step"], grid["num_values"]) == (-8.0, 7.9375, 0.0625, 256)
    assert grid["values"][:2] == [-8.0, -7.9375]


def test_before_and_after_are_side_by_side(tmp_path: Path) -> None:
    original, graph = pair()
    batches = [{"x": torch.randn(8, 16)}]
    document = written(graph, tmp_path, original=original, input_generator=batches)
    linear = node_of(document, "seq_blocks_2")
    assert (linear["weight_format"], linear["before"]["weight_format"]) == ("integer(8, 4)", "float")
    assert (linear["data_bits"], linear["before"]["data_bits"]) == (8, 32)
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


def test_batches_that_come_only_once_are_enough(tmp_path: Path) -> None:
    original, graph = pair()
    rows = [{"x": torch.randn(4, 16)}, {"x": torch.randn(4, 16)}]
    again = written(graph, tmp_path, original=original, input_generator=rows, num_samples=6)
    once = written(graph, tmp_path, original=original, input_generator=iter(rows), num_samples=6)
    assert once["histograms"] == again["histograms"]
    assert node_of(once, "seq_blocks_2")["error"] == node_of(again, "seq_blocks_2")["error"]


def test_the_graph_and_the_arguments_are_left_as_they_were(tmp_path: Path) -> None:
    original, graph = pair()
    graph.model.train()
    state = copy.deepcopy(graph.model.state_dict())
    args = {"path": tmp_path / "a.html", "original": original, "input_generator": [{"x": torch.randn(8, 16)}]}
    kept = dict(args)
    report_html_analysis_pass(graph, args)
    assert args == kept
    assert graph.model.training
    assert all(torch.equal(value, state[key]) for key, value in graph.model.state_dict().items())


def test_what_other_passes_found_is_shown_as_it_is(tmp_path: Path) -> None:
    _, graph = pair()
    alone = {"seq_blocks_2": {"sqnr_db": 1.5, "output_sqnr_db": 2.5, "loss_change": 0.25, "accuracy_change": -0.5}}
    run = {"model": "tiny", "dataset": "rows", "test": {"before": {"accuracy": 0.75}, "after": {"accuracy": 0.5}}}
    document = written(graph, tmp_path, sensitivity={"alone": alone, "all_but": {}, "formats": "ours"}, run=run)
    assert node_of(document, "seq_blocks_2")["sensitivity"] == {"alone": alone["seq_blocks_2"], "all_but": None}
    assert document["figures"][0] == {
        "title": "Accuracy",
        "value": 0.5,
        "before": 0.75,
        "kind": "share",
        "better": "more",
    }
    assert document["subtitle"] == "tiny · rows · 6 nodes"


def test_functions_methods_and_constants_are_nodes_too(tmp_path: Path) -> None:
    graph = annotated(Mixed().eval(), x=torch.randn(4, 6))
    document = written(graph, tmp_path, input_generator=[{"x": torch.randn(4, 6)}])
    assert [node["name"] for node in document["nodes"]] == [node.name for node in graph.fx_graph.nodes]
    edges = [[document["nodes"][i]["name"] for i in node["inputs"]] for node in document["nodes"]]
    assert edges == [[each.name for each in node.all_input_nodes] for node in graph.fx_graph.nodes]
    json.loads(embedded(document))


@pytest.mark.parametrize("values", [[float("nan")] * 4, [1.0, float("inf"), float("nan"), -2.0], [3.0] * 4, []])
def test_values_that_are_hard_to_draw(values: list[float], tmp_path: Path) -> None:
    graph = annotated(nn.Sequential(nn.ReLU()), input=torch.ones(2, 2))
    rows = torch.tensor(values).reshape(-1, 2) if values else torch.ones(1, 0)
    document = written(graph, tmp_path, input_generator=[{"input": rows}])
    shown = document["histograms"][tensor_of(document, "input_1", "data_out_0")["histogram"]]
    finite = [value for value in values if math.isfinite(value)]
    assert sum(shown["counts"]) == len(finite)
    assert shown["odd"] == len(values) - len(finite)


def test_mistakes_are_told(tmp_path: Path) -> None:
    _, graph = pair()
    with pytest.raises(ValueError, match="'num_samples' must be at least 1, got 0"):
        report_html_analysis_pass(graph, {"path": tmp_path / "a.html", "num_samples": 0})
    with pytest.raises(ValueError, match="did you mean 'original'"):
        report_html_analysis_pass(graph, {"path": tmp_path / "a.html", "orignal": None})
    with pytest.raises(ValueError, match="gives no batches"):
        report_html_analysis_pass(graph, {"path": tmp_path / "a.html", "input_generator": []})
    assert not (tmp_path / "a.html").exists()


# What formats can represent


@pytest.mark.parametrize("name", FORMATS)
def test_every_number_of_a_rounded_tensor_is_representable(name: str) -> None:
    number_format = FORMATS[name]().placed(-1, 0)
    x = torch.randn(2, 24)
    found = representable(number_format, x, None)
    y = number_format(x).double()
    assert found.low <= y.min() <= y.max() <= found.high
    if found.values is not None and found.num_scales == 1:
        assert all(((found.values - each).abs() <= 1e-6 * each.abs()).any() for each in y.flatten())


def test_of_many_values_some_are_drawn() -> None:
    found = representable(Integer(16, 8), torch.randn(8), None)
    drawn, stride = found.between(-100.0, 100.0)
    assert (len(drawn), stride) == (MOST_DRAWN, 2**16 // MOST_DRAWN)
    assert drawn[:2] == [-128.0, -127.0]
    assert found.between(0.0, 0.0625) == ([i / 256 for i in range(-24, 41)], 1)  # 1.5 times as far to both sides


def test_a_scale_of_its_own_moves_all_values() -> None:
    number_format = Integer(4, scale="float")
    found = representable(number_format, torch.randn(8), torch.tensor(0.5))
    assert found.values is not None
    assert found.values.tolist() == [0.5 * i for i in range(-8, 8)]


def test_a_format_that_does_not_say_how_it_is_stored_has_limits_only() -> None:
    class Halves(Format):
        name = "halves"
        width = 8

        def quantize(self, x: Tensor) -> Tensor:
            return (x * 2).round().clamp(-4, 4) / 2

    found = representable(Halves(), torch.randn(8), None)
    assert (found.low, found.high, found.step, found.values) == (-2.0, 2.0, None, None)


# Modules


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(x)) + x


def test_a_function_belongs_to_the_module_that_calls_it() -> None:
    graph = MaseGraph(nn.Sequential(Branch(), Branch()))
    found = {node.name: ".".join(scope) for node, scope in scopes_of(graph.fx_graph.nodes).items()}
    assert found == {"input_1": "", "_0_inner": "0", "relu": "0", "add": "0"} | {
        "_1_inner": "1",
        "relu_1": "1",
        "add_1": "1",
        "output": "",
    }


def test_where_fx_notes_no_module_a_function_belongs_where_its_inputs_do() -> None:
    graph = MaseGraph(nn.Sequential(Branch(), nn.Sequential(Branch())))
    for node in graph.fx_graph.nodes:
        node.meta.pop("nn_module_stack", None)
    found = {node.name: ".".join(scope) for node, scope in scopes_of(graph.fx_graph.nodes).items()}
    assert (found["relu"], found["relu_1"]) == ("0", "1.0")
    assert found["add_1"] == ""  # of one input in 0 and one in 1.0 nothing is known


# Curves and searches


def test_curves_are_sorted_by_what_they_measure() -> None:
    lines = [
        {"step": 1, "epoch": 1, "step_loss": 3.0, "learning_rate": 0.1},
        {"step": 2, "epoch": 1, "train_loss": 2.0, "val_loss": 2.5, "val_accuracy": 0.5, "learning_rate": 0.1},
        {"step": 3, "epoch": 2, "train_loss": 1.0, "val_loss": 1.5, "val_accuracy": 0.75, "learning_rate": 0.1},
        {"test_before_accuracy": 0.5},
    ]
    loss, accuracy, rate = curves_of(lines)
    assert (loss.title, loss.x) == ("Loss", [1, 2, 3])
    assert {series.name: series.values for series in loss.series} == {
        "each batch": [3.0, None, None],
        "training": [None, 2.0, 1.0],
        "validation": [None, 2.5, 1.5],
    }
    assert (accuracy.x, accuracy.series[0].values) == ([2, 3], [0.5, 0.75])
    assert rate.title == "Learning rate"


def test_long_curves_are_thinned_and_keep_epochs_and_the_end() -> None:
    lines: list[dict[str, float]] = [{"step": i, "step_loss": float(i)} for i in range(10_001)]
    lines[7] |= {"epoch": 1, "train_loss": 0.5}
    (loss,) = curves_of(lines)
    assert len(loss.x) <= MOST_POINTS + 2
    assert loss.x[-1] == 10_000
    assert 7 in loss.x


@pytest.mark.parametrize("every", [1, 2, 5])
def test_curves_of_many_epochs_are_thinned_too(every: int) -> None:
    lines = [{"step": i, "loss": 1.0} | ({"val_loss": 2.0} if i % every == 0 else {}) for i in range(100_001)]
    (loss,) = curves_of(lines)
    assert len(loss.x) <= MOST_POINTS
    assert loss.x == sorted(set(loss.x))
    assert loss.x[-1] == 100_000


def test_a_step_that_is_no_number_is_no_point() -> None:
    lines = [{"step": step, "train_loss": 1.0} for step in (1, math.inf, 2, math.nan, True)]
    assert curves_of(lines)[0].x == [1, 2]


TRIAL = {"number": 3, "state": "complete", "metrics": {"a": 1.0}, "front": True, "baseline": None, "toml": "x = 1"}


def test_a_search_shows_the_trials_that_ended_well() -> None:
    trials = [TRIAL, {**TRIAL, "state": "failed"}]
    found = search_of({"study": "s", "metrics": {"a": {"direction": "minimize"}}, "trials": trials})
    assert found is not None
    assert [trial["number"] for trial in found["trials"]] == [3]
    assert found["trials"][0]["toml"] == "x = 1"


@pytest.mark.parametrize(
    "change",
    [
        {"trials": None},
        {"study": 3},
        {"metrics": {"a": {"direction": "up"}}},
        {"metrics": {"a": 3}},
        {"trials": [{"number": 1}]},
        {"trials": [3]},
    ],
)
def test_a_damaged_log_of_a_search_is_told(change: dict[str, Any]) -> None:
    log = {"study": "s", "metrics": {"a": {"direction": "minimize"}}, "trials": [TRIAL]}
    with pytest.raises(ValueError, match="log of the search is damaged"):
        search_of(log | change)


# The page


class Parts(HTMLParser):
    """The texts of all scripts and styles, as a browser would cut them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: str | None = None
        self.found: list[tuple[str, str]] = []
        self.policy = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "style"):
            self.open = tag
            self.found.append((given.get("type") or tag, ""))
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        assert "src" not in given
        assert given.get("href") in (None, "#layers", "data:,")

    def handle_endtag(self, tag: str) -> None:
        self.open = None

    def handle_data(self, data: str) -> None:
        if self.open:
            kind, text = self.found[-1]
            self.found[-1] = kind, text + data


EVIL = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> & \u2028 $title"


def test_no_name_breaks_out_of_the_page(tmp_path: Path) -> None:
    graph = annotated(nn.Sequential(nn.ReLU()), input=torch.ones(1, 2))
    document = written(graph, tmp_path, title=EVIL)
    page = (tmp_path / "report.html").read_text()
    parts = Parts(page)
    assert [kind for kind, _ in parts.found] == ["style", "application/json", "script"]
    assert json.loads(parts.found[1][1])["title"] == document["title"] == EVIL
    assert "<img" not in page
    assert "<script>alert" not in page


def test_the_policy_allows_the_one_script_and_style_and_nothing_else(tmp_path: Path) -> None:
    written(pair()[1], tmp_path)
    parts = Parts((tmp_path / "report.html").read_text())
    digests = {
        kind: "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, text in parts.found
    }
    assert parts.policy == (
        f"default-src 'none'; script-src '{digests['script']}'; style-src '{digests['style']}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "sourceMappingURL" not in parts.found[2][1]


def test_the_licences_of_others_are_in_the_page(tmp_path: Path) -> None:
    written(pair()[1], tmp_path)
    page = (tmp_path / "report.html").read_text()
    for licence in LIBRARIES.values():
        text = ASSETS.joinpath(licence).read_text()
        assert "Permission is hereby granted" in text
        assert text in page


def test_what_others_wrote_is_as_they_published_it() -> None:
    lines = ASSETS.joinpath("vendor/SOURCES.txt").read_text().splitlines()
    listed = {name: digest for digest, name, _ in (line.split("  ") for line in lines)}
    for name in listed:
        content = ASSETS.joinpath("vendor", name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == listed[name], name
    assert {file.name for file in ASSETS.joinpath("vendor").iterdir()} == {*listed, "SOURCES.txt"}


def test_numbers_that_json_does_not_have_are_words() -> None:
    text = embedded({"a": math.inf, "b": [-math.inf, math.nan], "c": 1.5})
    assert json.loads(text) == {"a": "\0inf", "b": ["\0-inf", "\0nan"], "c": 1.5}


def test_scripts_write_text_and_never_html() -> None:
    dangerous = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(")
    for file in ASSETS.iterdir():
        if file.name.endswith(".js"):
            assert not dangerous.search(file.read_text()), file.name


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1, 2])
def test_text_has_the_contrast_that_wcag_asks_for(theme: int) -> None:
    blocks = re.findall(r"\{([^{}]*--page[^{}]*)\}", ASSETS.joinpath("theme.css").read_text())
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[theme]))
    for ink in ("ink", "muted", "accent", "good", "bad"):
        for paper in ("page", "surface", "raised", "accent-soft"):
            if (ink, paper) in (("good", "accent-soft"), ("bad", "accent-soft")):
                continue  # never there
            light, dark = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def test_both_dark_themes_are_the_same() -> None:
    blocks = re.findall(r"\{([^{}]*--page[^{}]*)\}", ASSETS.joinpath("theme.css").read_text())
    by_system, by_choice = (blocks[i].split() for i in (1, 2))
    assert by_system == by_choice


def test_an_empty_document_makes_a_page() -> None:
    assert render({"title": "x"}).startswith("<!DOCTYPE html>")
