"""What a user sees of real runs: the pages of `ch view`, reports and plots."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from torch import nn, randn

import chop
from browser.report_page import METRICS, opened, trial, written
from chop.reporting.view.server import address_of, make_server
from samples import annotated

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
WIDTHS = {"name": ["integer"], "weight_width": [4, 8], "data_in_width": [4, 8]}
SEARCH = {"search_space": {"seed": {"default": {"config": WIDTHS}}}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trainings on different rows, a search and a sweep."""
    root = tmp_path_factory.mktemp("runs") / "out"
    common: dict[str, Any] = {"project_dir": root, "accelerator": "cpu", "batch_size": 64}
    few = {"data_options": {"num_rows": 400}}
    chop.train("toy", "toy_tiny", max_epochs=2, learning_rate=0.01, name="many", **common)
    first = chop.train("toy", "toy_tiny", max_epochs=2, learning_rate=0.01, name="few", **few, **common)
    chop.sweep("toy", "toy_tiny", load=first, formats="integer,mxfp", widths="4..6", name="sweep", **few, **common)
    search = chop.search("toy", "toy_tiny", SEARCH, load=first, n_trials=6, name="search", **few, **common)
    chop.report(search, sensitivity=False)
    return root


@pytest.fixture
def address(project: Path, page: Page) -> Iterator[str]:
    with make_server(project, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield address_of(server, "127.0.0.1")
        page.wait_for_load_state("networkidle")  # images that load last would be errors when the server ends
        server.shutdown()
        thread.join()


def test_runs_on_different_rows_are_not_compared_and_the_page_says_so(
    page: Page, address: str, screenshots: Path
) -> None:
    page.goto(f"{address}compare?run=many&run=few")
    assert page.locator(".notice").inner_text() == (
        "few was tested on other rows than many: accuracy and loss are not compared."
    )
    assert page.locator(".change.better, .change.worse").count() == 0
    row = page.locator("#key-figures tr", has=page.get_by_role("rowheader", name="accuracy", exact=True))
    assert all(text.endswith("%") for text in row.locator("td").all_inner_texts())
    page.screenshot(path=screenshots / "view-different-data.png", full_page=True)


def test_the_report_of_a_search_shows_the_graph_of_the_chosen_trial(
    page: Page, project: Path, screenshots: Path
) -> None:
    best = chop.open_run(project / "search").summary["best"]
    opened(page, project / "search/report.html")
    note = page.locator("#key-figures p").first.inner_text()
    assert note == f"The key figures, the graph and the layers are those of trial {best['trial']}."
    formats = page.locator("#table tbody tr[data-node=seq_blocks_0]").inner_text()
    assert "integer" in formats
    page.screenshot(path=screenshots / "report-search-chosen.png", full_page=True)


BOX = "box => { const b = box.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }"


def colours(page: Page) -> dict[str, str]:
    """The colour of each op in the graph."""
    entries: list[list[str]] = page.locator("#legend li").evaluate_all(
        "all => all.map(li => [li.textContent.split(' ')[0], getComputedStyle(li.firstChild).backgroundColor])"
    )
    return {entry[0]: entry[1] for entry in entries}


def test_the_graph_fits_its_box_with_readable_text_and_titles_that_no_line_crosses(
    page: Page, tmp_path: Path, screenshots: Path
) -> None:
    layers = [layer for _ in range(4) for layer in (nn.Linear(8, 8), nn.ReLU(), nn.BatchNorm1d(8))]
    graph = annotated(nn.Sequential(nn.Sequential(*layers)).eval(), input=randn(1, 8))
    opened(page, written(tmp_path / "page.html", graph))
    left, top, right, bottom = page.locator(".canvas").evaluate(BOX)
    for x0, y0, x1, y1 in page.locator("#canvas .box").evaluate_all(f"all => all.map({BOX})"):
        assert left <= x0 < x1 <= right
        assert top <= y0 < y1 <= bottom
    heights = page.locator("#canvas .name").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().height)"
    )
    assert min(heights) > 10  # pixels, for a font of 13 pixels at full size
    grip = page.locator("#canvas .grip").first.evaluate("each => getComputedStyle(each).fill")
    assert grip.startswith("rgb(")  # opaque, above the lines
    page.locator(".canvas").screenshot(path=screenshots / "graph.png")


def test_an_op_has_the_same_colour_in_all_reports(page: Page, tmp_path: Path) -> None:
    many_relus = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.ReLU())
    many_layers = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8), nn.Linear(8, 8), nn.ReLU())
    seen = []
    for model in (many_relus, many_layers):
        opened(page, written(tmp_path / "page.html", annotated(model.eval(), input=randn(1, 8))))
        seen.append(colours(page))
    first, second = seen
    assert first == {op: second[op] for op in ("linear", "relu")}
    assert len(set(second.values())) == 3


def test_a_pareto_plot_shows_the_accuracies_that_matter_and_the_others_on_request(
    page: Page, tmp_path: Path, screenshots: Path
) -> None:
    trials = [trial(i, 0.8 - 0.01 * i, 9.0 - i, front=True) for i in range(5)]
    trials += [trial(7, 0.1, 2.0), trial(-1, 0.79, 8.5, baseline="integer, 8 bits")]
    search = {"study": "s", "plain": {"accuracy": 0.81}, "metrics": METRICS, "trials": trials, "best": None}
    opened(page, written(tmp_path / "page.html", search=search))
    assert page.locator("#pareto-plot .point").count() == 6
    page.screenshot(path=screenshots / "pareto.png")
    page.get_by_label("show 1 trial below 70.00 %").check()
    assert page.locator("#pareto-plot .point").count() == 7


def test_charts_beside_each_other_have_the_same_height(page: Page, project: Path) -> None:
    opened(page, project / "search/report.html")
    heights = page.locator("#bars .chart").evaluate_all("all => all.map(each => each.offsetHeight)")
    assert len(heights) == 2
    assert heights[0] == heights[1]


def test_the_page_of_a_run_folds_options_with_default_values(page: Page, address: str, screenshots: Path) -> None:
    page.goto(f"{address}run/sweep")
    options = page.locator("#options tbody th")
    visible = [option.inner_text() for option in options.all() if option.is_visible()]
    assert {"model", "dataset", "formats", "widths", "data_options.num_rows"} <= set(visible)
    assert "num_devices" not in visible
    page.locator("#options summary").click()
    assert page.get_by_role("rowheader", name="num_devices").is_visible()
    page.screenshot(path=screenshots / "view-run.png", full_page=True)


def test_the_overview_has_one_line_per_run_and_columns_that_differ_first(
    page: Page, address: str, screenshots: Path
) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(address)
    rows = page.locator("#table tbody tr").evaluate_all("all => all.map(each => each.offsetHeight)")
    assert len(rows) == 4
    assert max(rows) < 45
    heads = page.locator("#table thead th").all_inner_texts()[1:]
    assert heads[:2] == ["run", "action"]
    places = [
        next(i for i, head in enumerate(heads) if word in head) for word in ("num", "acc", "model", "started")
    ]
    assert places == sorted(places)
    search = page.locator("#table tbody tr", has=page.get_by_role("link", name="search", exact=True))
    assert "was 1.54 kB" in (search.locator("td[title*='was']").last.get_attribute("title") or "")
    page.screenshot(path=screenshots / "view-overview-real.png", full_page=True)
