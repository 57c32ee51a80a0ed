"""Debian's Chromium, driven by Playwright; without either, the tests of this folder are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = """
    --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield made
        made.close()


@pytest.fixture
def errors() -> list[str]:
    """The errors in the browser's console; at the end of a test there must be none."""
    return []


@pytest.fixture
def page(browser: Browser, errors: list[str]) -> Iterator[Page]:
    """An empty page in a separate browser context, without stored data."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    made = context.new_page()
    made.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    made.on("pageerror", lambda error: errors.append(str(error)))
    yield made
    context.close()
    assert errors == []


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """The folder for screenshots of the pages."""
    folder = Path(__file__).parents[2] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
