"""How the report looks: everything is visible and readable without any action."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from browser.report_page import METRICS, Block, opened, trial, written
from chop.passes.graph import compare_graphs_analysis_pass, quantize_transform_pass, sensitivity_analysis_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from samples import LAB_PASS_ARGS, annotated

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow

BOXES = (
    "all => all.map(each => { const b = each.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] })"
)
TRUNCATED = """all => all.flatMap(select => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = getComputedStyle(select).font;
  const room = select.clientWidth - 2 * parseFloat(getComputedStyle(select).paddingLeft);
  return [...select.options].map(option => option.text).filter(text => pen.measureText(text).width > room);
})"""


def boxes(elements: Locator) -> list[list[float]]:
    found: list[list[float]] = elements.evaluate_all(BOXES)
    return found


def overlapping(texts: list[list[float]], others: list[list[float]]) -> list[tuple[list[float], list[float]]]:
    return [
        (a, b)
        for a in texts
        for b in others
        if a is not b and a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a quantised chain with errors and sensitivities, and with two exact nodes."""
    torch.manual_seed(0)
    original = annotated(nn.Sequential(*[Block() for _ in range(8)]).eval(), input=torch.randn(1, 8))
    graph, _ = quantize_transform_pass(deepcopy_mase_graph(original), LAB_PASS_ARGS)
    batches = [{"input": torch.randn(32, 8)}]
    _, comparison = compare_graphs_analysis_pass(original, graph, batches)
    labelled = [(batches[0], torch.randint(8, (32,)))]
    _, sensitivity = sensitivity_analysis_pass(original, {**LAB_PASS_ARGS, "labelled_batches": labelled})
    comparison["by_node"]["_0_norm"]["sqnr_db"] = math.inf
    args = {"original": original, "comparison": comparison, "sensitivity": sensitivity, "input_generator": batches}
    return written(tmp_path_factory.mktemp("report") / "page.html", graph, **args)


class Flat(nn.Module):
    """Many functions outside of any module."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(50):
            x = torch.relu(x)
        return x


@pytest.mark.parametrize("size", [(1400, 900), (400, 800)])
@pytest.mark.parametrize("kind", ["modules", "flat"])
def test_all_of_the_graph_is_visible_at_first(
    kind: str, size: tuple[int, int], page: Page, quantized: Path, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    graph = annotated(Flat(), x=torch.randn(1, 8)) if kind == "flat" else None
    opened(page, quantized if graph is None else written(tmp_path / "page.html", graph))
    (left, top, right, bottom) = boxes(page.locator(".canvas"))[0]
    drawn = boxes(page.locator("#canvas .box"))
    assert len(drawn) > 2
    assert all(left <= x0 and top <= y0 and x1 <= right and y1 <= bottom for x0, y0, x1, y1 in drawn)


def test_no_choice_is_truncated_and_the_table_of_layers_fits(page: Page, quantized: Path) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    opened(page, quantized)
    assert page.locator("select").count() >= 3
    assert page.locator("select").evaluate_all(TRUNCATED) == []
    too_wide = "box => box.scrollWidth - box.clientWidth"
    assert page.locator("#layers .scroll").evaluate(too_wide) <= 0
    assert page.locator("[data-column=parameters]").first.is_hidden()
    page.check("#all-columns")
    assert page.locator("[data-column=parameters]").first.is_visible()


def test_a_layer_without_error_has_its_own_kind_of_bar(page: Page, quantized: Path) -> None:
    opened(page, quantized)
    exact = page.locator("#error-bars li", has_text="exact")
    assert exact.count() >= 1
    assert exact.locator(".bar.exact").count() == exact.count() == page.locator("#error-bars .bar.exact").count()


def test_details_in_boxes_are_not_cut_where_there_is_room(page: Page, quantized: Path) -> None:
    opened(page, quantized)
    assert not [
        text for text in page.locator("#canvas [data-node] .detail").all_text_contents() if text.endswith("…")
    ]


def test_the_totals_name_nodes_of_unknown_cost(page: Page, tmp_path: Path) -> None:
    cost = {"by_node": {}, "total": {"macs": 3}, "unknown": ["fft"]}
    opened(page, written(tmp_path / "page.html", cost=cost))
    assert "The totals leave out 1 node of unknown cost: fft." in page.locator("#cost-note").inner_text()


def crowded() -> dict[str, Any]:
    """A search whose baselines are close to its trials and to the accuracy of the original model."""
    names = ["memory_density", "num_rows", "weight_bits"]
    trials = [trial(i, 0.75 - 0.02 * i**1.3, 9.0 - i / 2, front=True) for i in range(12)]
    trials += [trial(-1 - i, 0.748 - 0.03 * i, 9.0 - i, baseline=f"integer, {9 - i} bits") for i in range(8)]
    for each in trials:
        each["metrics"] |= dict.fromkeys(names, 1.0)
    return {"study": "s", "plain": {"accuracy": 0.75}, "metrics": METRICS, "trials": trials, "best": None}


def test_labels_of_the_pareto_plot_cover_nothing(page: Page, tmp_path: Path) -> None:
    opened(page, written(tmp_path / "page.html", search=crowded()))
    labels = boxes(page.locator("#pareto-plot :is(.baseline-label, .plain-line text)"))
    points = boxes(page.locator("#pareto-plot .point :is(circle, path:not(.ring))"))
    assert len(labels) >= 5
    assert overlapping(labels, [*labels, *points]) == []


def test_the_metrics_of_a_trial_have_titles(page: Page, tmp_path: Path) -> None:
    opened(page, written(tmp_path / "page.html", search=crowded()))
    page.locator("[data-trial='2']").click()
    titles = page.locator("#trial dt").all_inner_texts()
    assert {"memory density", "rows evaluated", "weight memory"} <= set(titles)
    assert page.locator("#trial dd").last.inner_text() == "0.125 B"  # one bit


def test_a_series_has_the_same_colour_in_all_plots(page: Page, tmp_path: Path) -> None:
    keys = "train_loss_step train_loss val_loss train_accuracy val_accuracy".replace("train_loss_step", "step_loss")
    curves = [{"step": i, **dict.fromkeys(keys.split(), 1.0 / (i + 1))} for i in range(4)]
    opened(page, written(tmp_path / "page.html", curves=curves))
    rows = page.locator(".u-legend .u-series")
    read = (
        "all => all.map(e => [e.innerText.trim(), getComputedStyle(e.querySelector('.u-marker')).borderTopColor])"
    )
    found = [(name, colour) for name, colour in rows.evaluate_all(read) if name != "step"]
    assert {name for name, _ in found} == {"each batch", "training", "validation"}
    assert len(set(found)) == 3
