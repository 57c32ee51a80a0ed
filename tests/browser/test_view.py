"""`ch view` in a browser: sorting, filtering and comparing runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chop.actions.train import train
from chop.actions.transform import transform
from chop.config import TrainConfig, TransformConfig
from chop.reporting.view.server import address_of, make_server

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
SPY = """<!DOCTYPE html><title>spy</title><script>
fetch("/").then(() => "read", () => "blocked").then((text) => { document.title = `${self.origin} ${text}`; });
</script>"""


def quantized(width: int) -> dict[str, Any]:
    widths = {
        f"{role}_{key}": value
        for role in ("data_in", "weight", "bias")
        for key, value in (("width", width), ("frac_width", width // 2))
    }
    return {"quantize": {"by": "type", "linear": {"config": {"name": "integer", **widths}}}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training, two transforms of it, a corrupt run, and a malicious report."""
    root = tmp_path_factory.mktemp("runs") / "out"
    common: dict[str, Any] = {"model": "toy", "dataset": "toy_tiny", "batch_size": 64, "project_dir": root}
    first = train(TrainConfig(max_epochs=2, learning_rate=0.01, accelerator="cpu", **common)).rename(
        root / "trained"
    )
    best = first / "software/training_ckpts/best.ckpt"
    for width, name in ((8, "eight"), (2, "two")):
        run = transform(TransformConfig(load_name=best, passes=quantized(width), accelerator="cpu", **common))
        run.parents[1].rename(root / name)
    (root / "<script>corrupt").mkdir()
    (root / "<script>corrupt/summary.json").write_text('{"action": ')
    (first / "report.html").write_text(SPY)
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


def accuracy(project: Path, name: str) -> float:
    found = json.loads((project / name / "summary.json").read_text())["test"]
    return float((found["after"] if "after" in found else found)["accuracy"])


def names(page: Page) -> list[str]:
    return page.locator("#table tbody tr:visible th a[href^='/run/']").all_inner_texts()


def test_the_overview_sorts_and_filters(page: Page, address: str, project: Path, screenshots: Path) -> None:
    page.goto(address)
    assert names(page) == ["<script>corrupt", "two", "eight", "trained"]
    page.screenshot(path=screenshots / "view-overview.png", full_page=True)
    page.get_by_role("button", name="accuracy").click()
    by_accuracy = sorted(("two", "eight", "trained"), key=lambda name: -accuracy(project, name))
    shown = names(page)
    assert [accuracy(project, name) for name in shown[:3]] == [accuracy(project, name) for name in by_accuracy]
    assert shown[3] == "<script>corrupt"
    header = page.locator("th", has=page.get_by_role("button", name="accuracy"))
    assert header.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="accuracy").press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert names(page)[3] == "<script>corrupt"
    page.keyboard.press("/")
    page.keyboard.type("transform two")
    assert names(page) == ["two"]
    assert page.locator("#filter-count").inner_text() == "1 of 4"


def test_pages_of_many_runs_keep_words_order_and_chosen_runs(
    page: Page, address: str, project: Path, screenshots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chop.reporting.view.overview.PAGE_SIZE", 2)
    page.goto(address)
    assert names(page) == ["<script>corrupt", "two"]
    page.get_by_label("compare two").check()
    page.get_by_role("button", name="Next").click()
    assert names(page) == ["eight", "trained"]
    assert page.get_by_label("compare two").is_checked()
    page.get_by_label("compare eight").check()
    page.get_by_role("button", name="accuracy").click()
    page.screenshot(path=screenshots / "view-pages.png", full_page=True)
    best = max(("two", "eight", "trained"), key=lambda name: accuracy(project, name))
    assert accuracy(project, names(page)[0]) == accuracy(project, best)
    assert page.locator("th[aria-sort=descending]").inner_text() == "accuracy"
    page.keyboard.press("/")
    page.keyboard.type("transform two")
    page.keyboard.press("Enter")
    page.wait_for_url("**filter=transform+two**")
    assert names(page) == ["two"]
    assert page.locator("#chosen").inner_text() == "2 selected"
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?**")
    assert sorted(page.locator("#key-figures thead a").all_inner_texts()) == ["eight", "two"]


def test_the_overview_fits_a_page_of_1400_pixels(page: Page, address: str, screenshots: Path) -> None:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(address)
    assert page.locator("#table th.option").count() >= 2  # options that differ between runs
    assert page.locator(".scroll").evaluate("each => each.scrollWidth - each.clientWidth") == 0
    page.screenshot(path=screenshots / "view-1400.png", full_page=True)


def test_two_runs_are_selected_and_compared(page: Page, address: str, project: Path, screenshots: Path) -> None:
    page.goto(address)
    button = page.get_by_role("button", name="Compare")
    page.get_by_label("compare two").check()
    assert button.is_disabled()
    page.get_by_label("compare eight").press("Space")
    assert page.locator("#chosen").inner_text() == "2 selected"
    button.press("Enter")
    page.wait_for_url("**/compare?run=two&run=eight")
    figures = page.locator("#key-figures tr", has=page.get_by_role("rowheader", name="accuracy", exact=True))
    points = 100 * (accuracy(project, "two") - accuracy(project, "eight"))
    texts = figures.locator("td").all_inner_texts()
    assert texts[0] == f"{100 * accuracy(project, 'eight'):.2f} %"
    assert texts[1].startswith(f"{100 * accuracy(project, 'two'):.2f} %")
    assert f"{abs(points):.2f} points" in texts[1] if points else "points" not in texts[1]
    formats = page.locator("#formats tr", has_text="seq_blocks_0.weight").locator("td").all_inner_texts()
    assert formats == ["integer(8, 4)", "integer(2, 1)"]
    page.screenshot(path=screenshots / "view-compare.png", full_page=True)
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=screenshots / "view-compare-dark.png", full_page=True)
    page.get_by_role("link", name="← all runs").click()
    assert len(names(page)) == 4


def test_the_theme_is_remembered(page: Page, address: str) -> None:
    page.goto(address)
    page.locator("#theme").click()
    page.locator("#theme").click()
    page.goto(f"{address}run/trained")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_reports_cannot_read_other_pages(page: Page, address: str, errors: list[str]) -> None:
    page.goto(address)
    page.get_by_role("link", name="report").click()
    page.wait_for_function("document.title !== 'spy'")
    assert page.title() == "null blocked"
    errors.clear()  # the browser logs what it blocked


def test_on_a_narrow_screen_only_tables_scroll_horizontally(page: Page, address: str, screenshots: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for target in ("", "run/two", "compare?run=eight&run=two"):
        page.goto(address + target)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.screenshot(path=screenshots / "view-narrow.png", full_page=True)
