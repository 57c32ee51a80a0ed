"""The report in a browser: it shows the results of the passes, and all of them can be reached."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
import torch
from torch import Tensor, nn

from browser.report_page import METRICS, Block, choose, names, number, opened, trial, written
from chop.passes.graph import (
    compare_graphs_analysis_pass,
    estimate_cost_analysis_pass,
    quantize_transform_pass,
    report_html_analysis_pass,
    sensitivity_analysis_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from samples import LAB_PASS_ARGS, annotated

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

EVIL = "<script>hacked = 1</script>"
TOML = '[passes.quantize]\nby = "type"\n\n[passes.quantize.linear.config]\nname = "integer"\n'


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.add_module(EVIL, nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = getattr(self, EVIL)(self.blocks(x))
        return y


LONG_LINE = f'load_name = "/{"a_long_path/" * 12}"\n'  # wider than a phone
SEARCH = {
    "study": "mixed",
    "plain": {"accuracy": 0.8},
    "best": {"number": 1, "rule": "highest accuracy", "command": "ch transform --config best.toml"},
    "metrics": METRICS,
    "trials": [
        trial(0, 0.5, 4.0, front=True, toml=TOML),
        trial(1, 0.75, 6.0, front=True, toml=TOML + "weight_width = 6\n" + LONG_LINE),
        trial(2, 0.5, 6.0, toml=TOML),
        trial(3, 0.7, 8.0, baseline="integer 8", toml=None),
    ],
}
CURVES = [
    {"step": step, "epoch": step // 10, "train_loss": 1 / step, "val_loss": 1.5 / step, "val_accuracy": step / 50}
    for step in range(10, 50, 10)
]


class Report:
    """A page, and the results of the passes that it shows."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.original = annotated(Net().eval(), x=torch.randn(16, 8))
        formats = LAB_PASS_ARGS | {"batch_norm1d": {"config": {"name": "mxint", "weight_width": 6}}}
        self.graph, _ = quantize_transform_pass(deepcopy_mase_graph(self.original), formats)
        self.batches = [{"x": torch.randn(32, 8)}]
        labels = torch.randint(4, (32,))
        self.cost = estimate_cost_analysis_pass(self.graph, None)[1]
        self.cost_before = estimate_cost_analysis_pass(self.original, None)[1]
        self.comparison = compare_graphs_analysis_pass(self.original, self.graph, self.batches)[1]
        given = {**formats, "labelled_batches": [(self.batches[0], labels)]}
        self.sensitivity = sensitivity_analysis_pass(self.original, given)[1]
        self.path = folder / "report.html"
        args = {
            "path": self.path,
            "title": f"a report {EVIL}",
            "original": self.original,
            "input_generator": self.batches,
            "sensitivity": self.sensitivity,
            "curves": CURVES,
            "search": SEARCH,
            "run": {"test": {"before": {"accuracy": 0.75}, "after": {"accuracy": 0.5}}},
        }
        self.info = report_html_analysis_pass(self.graph, args)[1]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(tmp_path_factory.mktemp("report"))


@pytest.fixture
def shown(page: Page, report: Report) -> Page:
    """The report, opened from disk."""
    return opened(page, report.path)


def test_the_page_makes_no_requests(browser: Browser, page: Page, report: Report) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    opened(page, report.path)
    choose(page, "blocks_0_fc")
    page.locator("[data-trial='1']").click()
    assert [url for url in requests if not url.startswith("data:")] == [report.path.as_uri()]


def test_the_panel_shows_the_results_of_the_passes(shown: Page, report: Report) -> None:
    name = "blocks_1_fc"
    choose(shown, name)
    panel = shown.locator("#panel")
    assert panel.locator("h2").inner_text() == name
    cost = report.cost["by_node"][name]
    for key in ("macs", "flops", "bitops", "parameters", "weight_bits", "activation_bits", "energy_pj"):
        assert number(panel.locator(f"data[data-key={key}]")) == cost[key], key
    assert cost["macs"] == 16 * 8 * 8
    error = report.comparison["by_node"][name]
    for key in ("sqnr_db", "max_error", "cosine"):
        assert number(panel.locator(f"data[data-key=error_{key}]")) == error[key], key
    alone = report.sensitivity["alone"][name]
    assert number(panel.locator("data[data-key=loss_change]").first) == alone["loss_change"]
    assert number(panel.locator("data[data-key=accuracy_change]").first) == alone["accuracy_change"]
    weight = report.graph.modules["blocks.1.fc"].weight
    assert isinstance(weight, Tensor)
    tensor = panel.locator("[data-tensor=weight]")
    assert number(tensor.locator("data[data-key=min]")) == weight.min().item()
    assert number(tensor.locator("data[data-key=max]")) == weight.max().item()
    assert tensor.locator(".chip").all_inner_texts() == ["float", "integer(8, 4)"]
    assert "8 bits per element" in tensor.inner_text()
    bars = tensor.locator(".histogram .bars rect title").all_text_contents()
    assert sum(int(re.sub(r"\D", "", text.split(" values")[0])) for text in bars) == weight.numel()


def test_the_page_shows_the_number_of_values_and_rows_measured(shown: Page) -> None:
    assert (
        shown.inner_text("#cost-note")
        == "Costs are for one forward pass, with inputs of shape [16, 8]. Bit operations are counted as 'bops'."
    )
    choose(shown, "blocks_1_fc")
    assert number(shown.locator("[data-tensor=data_in_0] data[data-key=values]")) == 32 * 8
    assert number(shown.locator("[data-tensor=weight] data[data-key=values]")) == 8 * 8
    assert shown.locator("#panel data[data-key=accuracy_change]").first.inner_text().endswith(" points")


def test_the_key_figures_are_the_totals(shown: Page, report: Report) -> None:
    cards = {"MACs": "macs", "Bit operations": "bitops", "Weight memory": "weight_bits", "Energy": "energy_pj"}
    for title, key in cards.items():
        figures = shown.locator(f"[data-figure='{title}'] data")
        assert number(figures.first) == report.cost["total"][key]
        if report.cost_before["total"][key] != report.cost["total"][key]:
            assert number(figures.last) == report.cost_before["total"][key]
    assert shown.locator("[data-figure=Accuracy]").inner_text().split("\n") == [
        "Accuracy",
        "50.00 %",
        "was 75.00 %",
    ]


def test_clicking_a_box_opens_the_panel_and_clicking_its_cross_closes_it(shown: Page) -> None:
    shown.locator("[data-node=blocks_0_fc]").first.click()
    assert shown.locator("#panel h2").inner_text() == "blocks_0_fc"
    shown.locator("#panel .facts button", has_text="blocks_0_norm").click()
    assert shown.locator("#panel h2").inner_text() == "blocks_0_norm"
    shown.click("#panel-close")
    assert not shown.locator("#panel").is_visible()


def test_search_marks_matches_and_enter_moves_to_the_next(shown: Page) -> None:
    shown.fill("#search", "linear")
    assert shown.locator("#search-count").inner_text() == "3 found"
    assert shown.locator(".box.match").count() == 3
    found = []
    for _ in range(4):
        shown.press("#search", "Enter")
        found.append(shown.locator("#panel h2").inner_text())
    assert found[:2] == ["blocks_0_fc", "blocks_1_fc"]
    assert found[3] == found[0] != found[2]
    shown.press("#search", "Escape")
    assert shown.locator(".box.match").count() == 0


def test_modules_close_and_open_and_a_search_opens_them(shown: Page) -> None:
    boxes = shown.locator("#canvas [data-node]")
    before = boxes.count()
    shown.click("#close-all")
    assert [group.get_attribute("data-group") for group in shown.locator("[data-group]").all()] == ["blocks"]
    assert boxes.count() == before - 8
    shown.locator("[data-group=blocks]").click()
    groups = [group.get_attribute("data-group") for group in shown.locator("[data-group]").all()]
    assert groups == ["blocks.0", "blocks.1"]
    choose(shown, "blocks_1_fc")
    assert shown.locator("#canvas [data-node=blocks_1_fc]").get_attribute("aria-pressed") == "true"
    shown.locator(".box.title", has_text="blocks").click()
    assert boxes.count() == before - 8
    shown.click("#open-all")
    assert boxes.count() == before


def test_every_edge_has_an_arrow_on_each_level(shown: Page) -> None:
    # 3 around blocks: x -> blocks -> last layer -> output. 3 within blocks: in, between the two, out. 6 within each
    # block: in to fc and to add, fc -> norm -> relu -> add, out.
    assert shown.locator("#canvas .edges path").count() == 3 + 3 + 2 * 6


def test_the_table_sorts(shown: Page, report: Report) -> None:
    costs = {name: cost["bitops"] for name, cost in report.cost["by_node"].items()}
    header = shown.locator("th[data-column=bitops]")
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert names(shown) == sorted(names(shown), key=lambda name: -costs[name])
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert [costs[name] for name in names(shown)] == sorted(costs[name] for name in names(shown))
    shown.locator("th[data-column=name] button").click()
    assert header.get_attribute("aria-sort") == "none"
    assert names(shown) == sorted(names(shown))


def test_the_table_filters_and_shows_the_original(shown: Page, report: Report) -> None:
    shown.check("#all-nodes")
    assert sorted(names(shown)) == sorted(node.name for node in report.graph.fx_graph.nodes)
    shown.fill("#filter", "blocks mxint")
    assert names(shown) == ["blocks_0_norm", "blocks_1_norm"]
    assert shown.locator("#filter-count").inner_text() == "2 of 11"
    cells = shown.locator("tr[data-node=blocks_0_norm] td")
    texts = {cell.get_attribute("data-column"): cell.inner_text() for cell in cells.all()}
    assert texts["formats"].split("\n") == ["mxint(6, 32)", "was float"]
    before = report.cost_before["by_node"]["blocks_0_norm"]["weight_bits"]
    assert number(shown.locator("tr[data-node=blocks_0_norm] [data-column=weight_bits] .was data")) == before
    shown.locator("tr[data-node=blocks_0_norm] button").click()
    assert shown.locator("#panel h2").inner_text() == "blocks_0_norm"


def test_bars_show_the_selected_measure(shown: Page, report: Report) -> None:
    shown.select_option("#cost-measure", "macs")
    rows = shown.locator("#cost-bars li")
    found = {row.locator("button").inner_text(): number(row.locator("data")) for row in rows.all()}
    assert found == {name: cost["macs"] for name, cost in report.cost["by_node"].items() if cost["macs"]}
    widths = [row.locator(".bar").evaluate("bar => bar.getBoundingClientRect().width") for row in rows.all()]
    assert widths[0] == pytest.approx(2 * widths[2], rel=0.02)  # 8 x 8 and 8 x 4 weights


def test_colours_show_the_selected_measure(shown: Page) -> None:
    assert "linear (3)" in shown.locator("#legend").inner_text()
    shown.select_option("#colour-by", "bits_per_weight")
    assert shown.locator("#legend li").all_inner_texts() == ["6.25", "8", "none"]
    linear = shown.locator("#canvas [data-node=blocks_0_fc]")
    assert "step6" in (linear.get_attribute("class") or "")


def test_a_layer_without_error_has_its_own_colour(page: Page, report: Report, tmp_path: Path) -> None:
    errors = {name: {**values} for name, values in report.comparison["by_node"].items()}
    errors["blocks_0_fc"]["sqnr_db"] = math.inf
    args = {"path": tmp_path / "page.html", "original": report.original, "input_generator": report.batches}
    comparison = {**report.comparison, "by_node": errors}
    report_html_analysis_pass(report.graph, {**args, "comparison": comparison})
    opened(page, tmp_path / "page.html").select_option("#colour-by", "sqnr_db")
    assert page.locator("#legend li").all_inner_texts()[-2:] == ["exact", "none"]
    drawn = page.locator("#canvas .exactbox[data-node]").all()
    exact = [name for name, values in errors.items() if values["sqnr_db"] == math.inf]
    assert {node.get_attribute("data-node") for node in drawn} >= {"blocks_0_fc"}
    assert {node.get_attribute("data-node") for node in drawn} <= set(exact)


def test_a_search_comes_first_and_its_best_trial_is_marked(shown: Page) -> None:
    assert shown.locator("main > section").first.get_attribute("id") == "search-section"
    assert shown.locator("header #figures").count() == 0
    assert shown.locator("main #figures .figure-card").count() > 3
    text = "Best: trial 1, highest accuracy. To make its model: ch transform --config best.toml"
    assert shown.locator("#best-trial").inner_text() == text
    assert [each.get_attribute("data-trial") for each in shown.locator(".point.best[data-trial]").all()] == ["1"]
    assert shown.locator("#trial h3").inner_text() == "Trial 1 (best)"
    assert shown.locator("#toml").inner_text() == TOML + "weight_width = 6\n" + LONG_LINE


def test_clicking_a_trial_shows_its_configuration(shown: Page) -> None:
    assert shown.locator("#search-section .lead").inner_text() == "mixed: 3 trials, 2 Pareto-optimal."
    assert shown.locator(".plain-line").get_attribute("aria-label") == "accuracy of the original model: 80.00 %"
    shown.locator("[data-trial='0']").click()
    assert shown.locator("#toml").inner_text() == TOML
    shown.locator("[data-trial='3']").click()
    assert shown.locator("#trial h3").inner_text() == "Baseline: integer 8"
    assert shown.locator("#toml").count() == 0
    shown.select_option("#pareto-x", "accuracy")
    shown.select_option("#pareto-y", "bits")
    across = [shown.locator(f"[data-trial='{i}'] circle").get_attribute("cx") for i in (0, 1)]
    assert float(across[0] or 0) < float(across[1] or 0)


def test_a_configuration_is_copied(browser: Browser, report: Report) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = opened(context.new_page(), report.path)
    page.locator("[data-trial='0']").click()
    page.click("#copy-toml")
    page.wait_for_selector("#copy-toml:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == TOML
    context.close()


def test_curves_are_drawn_and_listed_as_numbers(shown: Page) -> None:
    assert shown.locator("#training canvas").count() == 2
    shown.locator("#training summary").first.click()
    cells = shown.locator("#training details").first.locator("tbody tr").first.locator("data")
    assert [number(cell) for cell in cells.all()] == [10, 0.1, 0.15]


def test_curves_fit_when_the_panel_opens_and_closes(shown: Page) -> None:
    fits = """() => [...document.querySelectorAll("#training .curves")]
        .every((each) => each.querySelector(".uplot").offsetWidth === each.clientWidth)"""
    width = "document.querySelector('#training .curves').clientWidth"
    wide = shown.evaluate(width)
    choose(shown, "blocks_0_fc")
    shown.wait_for_function(fits)
    assert shown.evaluate(width) < wide
    shown.click("#panel-close")
    shown.wait_for_function(fits)
    assert shown.evaluate(width) == wide


def test_names_are_escaped(shown: Page) -> None:
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("h1").inner_text() == f"a report {EVIL}"
    assert shown.title() == f"a report {EVIL}"
    assert shown.locator("#canvas text", has_text=EVIL[:15]).count() == 1  # long names are cut
    shown.fill("#search", EVIL)
    shown.press("#search", "Enter")
    assert shown.locator("#panel .facts").inner_text().split("\n")[1] == EVIL


def test_the_graph_can_be_used_by_keyboard(shown: Page) -> None:
    def focused(attribute: str) -> Any:
        return shown.evaluate(f"document.activeElement.getAttribute('{attribute}')")

    keys = shown.keyboard
    keys.press("Tab")
    assert focused("class") == "skip"
    keys.press("/")
    assert focused("id") == "search"
    while focused("data-node") is None:
        keys.press("Tab")
    assert focused("data-node") == "x"
    walk = []
    for _ in range(4):
        keys.press("ArrowDown")
        walk.append(focused("data-node"))
    assert walk == ["blocks_0_fc", "blocks_0_norm", "relu", "add"]
    keys.press("ArrowUp")
    assert focused("data-node") == "relu"
    keys.press("Enter")
    assert shown.locator("#panel h2").inner_text() == "relu"
    keys.press("Enter")
    assert shown.evaluate("document.activeElement.textContent") == "relu"
    assert shown.evaluate("document.activeElement.tagName") == "H2"
    keys.press("Escape")
    assert not shown.locator("#panel").is_visible()
    assert focused("data-node") == "relu"
    keys.press("Backspace")
    assert focused("data-group") == "blocks.0"
    keys.press("Enter")
    assert shown.locator("[data-node=relu]").count() == 2  # in the graph and in the table
    before = shown.locator("#canvas > g").get_attribute("transform")
    keys.press("+")
    assert shown.locator("#canvas > g").get_attribute("transform") != before
    keys.press("End")
    assert focused("data-node") == "output"


@pytest.mark.parametrize(
    "selector", ["#table tbody tr[data-node=blocks_1_fc] button", "#cost-bars li >> nth=1 >> button"]
)
def test_focus_moves_to_the_details_and_back(selector: str, shown: Page) -> None:
    opener = shown.locator(selector)
    opener.focus()
    shown.keyboard.press("Enter")
    focused = "document.activeElement.textContent"
    assert shown.evaluate("document.activeElement.tagName") == "H2"
    name = shown.evaluate(focused)
    assert name == opener.inner_text()
    shown.locator("#panel .facts button").first.focus()
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.activeElement.tagName") == "H2"
    assert shown.evaluate(focused) != name
    shown.keyboard.press("Escape")
    assert opener.evaluate("element => element === document.activeElement")


def test_trials_can_be_selected_by_keyboard(shown: Page) -> None:
    shown.focus("#pareto-y")
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.dataset.trial") == "0"
    shown.keyboard.press("ArrowRight")
    shown.keyboard.press("Enter")
    assert "weight_width = 6" in shown.locator("#toml").inner_text()


def test_controls_have_accessible_names_and_the_page_has_landmarks(shown: Page) -> None:
    choose(shown, "blocks_0_fc")
    unnamed = """() => [...document.querySelectorAll("button, select, input, [role=button], [role=img], svg[role]")]
        .filter((e) => ![e, ...(e.labels || [])].some((each) => each.ariaLabel || each.textContent.trim()))
        .map((e) => e.outerHTML)"""
    assert shown.evaluate(unnamed) == []
    for landmark in ("header", "nav", "main", "aside", "footer"):
        assert shown.locator(landmark).count() == 1
    assert shown.evaluate("document.documentElement.lang") == "en"
    headings = shown.locator("main > section > h2").all_inner_texts()
    assert headings == ["Search", "Key figures", "Graph", "Cost and error by layer", "Layers", "Training"]


def test_wheel_and_drag_zoom_and_move_the_graph(shown: Page) -> None:
    layer = shown.locator("#canvas > g")

    def transform() -> list[float]:
        return [float(number) for number in re.findall(r"-?[\d.]+", layer.get_attribute("transform") or "")]

    shown.locator("#canvas").scroll_into_view_if_needed()
    box = shown.locator("#canvas").bounding_box()
    assert box is not None
    x, y, scale = transform()
    shown.mouse.move(box["x"] + 30, box["y"] + 30)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 90, box["y"] + 70)
    shown.mouse.up()
    assert transform() == pytest.approx([x + 60, y + 40, scale])
    shown.keyboard.down("Control")
    shown.mouse.wheel(0, -100)
    bigger = "old => !document.querySelector('#canvas > g').getAttribute('transform').endsWith(old)"
    shown.wait_for_function(bigger, arg=f"scale({scale})")
    shown.keyboard.up("Control")
    assert transform()[2] > scale
    shown.click("#fit")
    shown.click("#zoom-out")
    assert not shown.locator("#panel").is_visible()


def background(page: Page) -> str:
    found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def test_the_theme_follows_the_system_and_the_button(shown: Page) -> None:
    light = background(shown)
    shown.emulate_media(color_scheme="dark")
    dark = background(shown)
    assert light != dark
    shown.click("#theme")
    assert (shown.inner_text("#theme"), background(shown)) == ("Light", light)
    shown.emulate_media(color_scheme="light")
    shown.click("#theme")
    assert (shown.inner_text("#theme"), background(shown)) == ("Dark", dark)


def colours(page: Page) -> list[str]:
    """Return the current colours of text, boxes, marks and arrows."""
    names = ["ink", "muted", "raised", "surface", "accent", "accent-soft", "second", "edge", "hue0", "step0"]
    style = "getComputedStyle(document.documentElement)"
    found: list[str] = page.evaluate(
        f"names => names.map((name) => {style}.getPropertyValue(`--${{name}}`))", names
    )
    return found


def test_printing_is_always_light(shown: Page) -> None:
    shown.emulate_media(media="print")
    light = colours(shown)
    shown.emulate_media(media="print", color_scheme="dark")
    assert colours(shown) == light
    shown.emulate_media(media="screen", color_scheme="light")
    for _ in range(2):
        shown.click("#theme")
    assert shown.inner_text("#theme") == "Dark"
    assert colours(shown) != light
    shown.emulate_media(media="print")
    assert colours(shown) == light


CONTRAST = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const part = (byte) => (byte / 255 <= 0.04045 ? byte / 255 / 12.92 : ((byte / 255 + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = [...pen.getImageData(0, 0, 1, 1).data].map(part);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const fill = (element) => light(getComputedStyle(element).fill);
  return [...document.querySelectorAll("#canvas .boxes .box")].flatMap((box) => {
    const face = box.querySelector(".face");
    if (!face) return [];
    return [...box.querySelectorAll("text, tspan")].map((text) => {
      const [high, low] = [fill(text), fill(face)].sort((a, b) => b - a);
      return (high + 0.05) / (low + 0.05);
    });
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_on_boxes_of_every_colour(scheme: Literal["light", "dark"], shown: Page) -> None:
    shown.emulate_media(color_scheme=scheme)
    for key in shown.locator("#colour-by option").evaluate_all("options => options.map((each) => each.value)"):
        shown.select_option("#colour-by", key)
        contrasts = shown.evaluate(CONTRAST)
        assert len(contrasts) > 20
        assert min(contrasts) >= 4.5, key  # WCAG 2.2, 1.4.3


def test_printing_hides_the_controls(shown: Page) -> None:
    shown.emulate_media(media="print")
    assert not shown.locator("#search").is_visible()
    assert not shown.locator("#theme").is_visible()
    assert shown.locator("#table").is_visible()
    assert shown.locator("#canvas").is_visible()


def test_screenshots_are_saved(browser: Browser, report: Report, screenshots: Path) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
        page = opened(context.new_page(), report.path)
        page.screenshot(path=screenshots / f"report-{scheme}.png", full_page=True)
        choose(page, "blocks_0_fc")
        page.screenshot(path=screenshots / f"report-{scheme}-node.png")
        context.close()
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = opened(context.new_page(), report.path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=screenshots / "report-phone.png", full_page=True)
    choose(page, "blocks_0_fc")
    page.screenshot(path=screenshots / "report-phone-node.png")
    page.emulate_media(media="print")
    page.screenshot(path=screenshots / "report-print.png", full_page=True)
    context.close()
    assert len(list(screenshots.glob("report-*.png"))) >= 7


def test_the_document_is_embedded(shown: Page, report: Report) -> None:
    embedded = json.loads(shown.locator("#document").text_content() or "")
    assert [node["name"] for node in embedded["nodes"]] == [node.name for node in report.graph.fx_graph.nodes]


# Unusual content


NASTY = "</script><!--<script>\u2028'\"`${hacked = 1}<img src=x onerror='hacked=1'>&lt;\\u003c"


LAYER = "</script><!--<script>hacked = 1&lt;"  # torch.fx writes names into code, so quotes are not possible


class Named(nn.Module):
    """A model whose layer has a hostile name."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module(LAYER, nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.get_submodule(LAYER)(x)
        return y


def test_hostile_text_is_escaped_everywhere(page: Page, tmp_path: Path) -> None:
    trials = [trial(0, 0.5, 4.0, front=True, toml=NASTY), trial(1, 0.7, 8.0, baseline=NASTY, toml=None)]
    for each in trials:
        each["metrics"][NASTY] = 1.0
    search = {
        **SEARCH,
        "study": NASTY,
        "trials": trials,
        "metrics": METRICS | {NASTY: {"direction": "minimize"}},
    }
    curves = [{"step": i, f"{NASTY}_loss": 1.0} for i in range(3)]
    run = {"name": NASTY, "model": f"{NASTY}2", "data": {"title": NASTY}}
    graph = annotated(Named().eval(), x=torch.randn(1, 8))
    opened(page, written(tmp_path / "page.html", graph, title=NASTY, search=search, curves=curves, run=run))
    page.select_option("#pareto-x", NASTY)
    page.locator("[data-trial='0']").click()
    assert page.locator("#toml").text_content() == NASTY
    choose(page, "linear")
    assert LAYER in page.locator("#panel .facts dd").all_text_contents()
    assert page.locator("h1").text_content() == page.title() == NASTY
    assert NASTY in (page.locator("#subtitle").text_content() or "")
    assert page.locator("#training details thead th").all_text_contents()[1] == NASTY
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


@pytest.mark.parametrize(
    "bits",
    [
        [8.0, math.nextafter(8, 9)],
        [4.0],
        [-1e300, 1e300],
        [0.0, 0.0],
        [2**60, 2**60 + 256],
    ],
)
def test_unusual_metrics_can_be_drawn(bits: list[float], page: Page, tmp_path: Path) -> None:
    search = {**SEARCH, "trials": [trial(i, 0.5, each, front=True) for i, each in enumerate(bits)]}
    opened(page, written(tmp_path / "page.html", search=search))
    points = page.locator("#pareto-plot .point circle")
    across = [float(point.get_attribute("cx") or "nan") for point in points.all()]
    assert len(across) == len(bits)
    assert all(0 <= each <= 640 for each in across)


def test_ticks_have_distinct_labels(page: Page, tmp_path: Path) -> None:
    search = {**SEARCH, "trials": [trial(i, 0.7412 + i / 2000, 4.0 + i) for i in range(4)], "plain": {}}
    opened(page, written(tmp_path / "page.html", search=search))
    ticks = page.locator("#pareto-plot .axes text[text-anchor=end]").all_text_contents()
    assert len(ticks) >= 3
    assert len(set(ticks)) == len(ticks)


def test_a_loss_that_is_not_finite_leaves_a_gap(page: Page, tmp_path: Path) -> None:
    values = [3.0, math.inf, math.nan, 1.0]
    curves = [{"step": i, "train_loss": value} for i, value in enumerate(values)]
    opened(page, written(tmp_path / "page.html", curves=curves))
    page.locator("#training summary").click()
    assert page.locator("#training details tbody td").all_inner_texts() == ["3", "∞", "not a number", "1"]
    assert page.locator("#training canvas").count() == 1


def test_numbers_just_below_a_thousand_get_the_next_prefix(page: Page, tmp_path: Path) -> None:
    cost = {"by_node": {}, "total": {"macs": 999_700, "bitops": 2**60, "energy_pj": 999.9}}
    opened(page, written(tmp_path / "page.html", cost=cost))
    shown_as = {title: page.locator(f"[data-figure='{title}'] data").inner_text() for title in ("MACs", "Energy")}
    assert shown_as == {"MACs": "1 M", "Energy": "1 nJ"}
    assert number(page.locator("[data-figure='Bit operations'] data")) == 2**60
