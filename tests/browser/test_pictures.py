"""What a user sees of real runs: the pages of `ch view`, reports and plots."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import chop
from browser.report_page import opened
from chop.reporting.view.server import address_of, make_server

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
