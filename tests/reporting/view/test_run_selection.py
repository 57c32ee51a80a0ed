"""The overview of many runs is divided into pages; words and order are those of all runs."""

from __future__ import annotations

import json
import math
import re
from html import unescape
from pathlib import Path

import pytest

from chop.reporting.view.routes import respond

RUNS = {"run_9": 0.5, "run_10": 0.75, "run_1": None, "other": 0.25, "Zebra": math.nan, "nine": 0.9, "two": 0.125}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("chop.reporting.view.overview.PAGE_SIZE", 3)
    for number, (name, accuracy) in enumerate(RUNS.items()):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.toml").write_text(f"# started 2026-01-01T00:00:{59 - number}+00:00\n")
        summary = {"action": "train", "model": "toy", "test": {"accuracy": accuracy}}
        (tmp_path / name / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def page_of(root: Path, address: str) -> str:
    content = respond(root, address).content
    assert isinstance(content, bytes)
    return content.decode()


def names(page: str) -> list[str]:
    return re.findall(r'<th scope="row" data-value="(\w+)"', page)


def shown(root: Path, address: str) -> list[str]:
    return names(page_of(root, address))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["run_9", "run_10", "run_1"]),
        ("page=2", ["other", "Zebra", "nine"]),
        ("page=3", ["two"]),
        ("page=99999999", ["two"]),
        ("sort=run", ["nine", "other", "run_1"]),
        ("sort=run&page=2", ["run_9", "run_10", "two"]),
        ("sort=-run", ["Zebra", "two", "run_10"]),
        ("sort=-accuracy", ["nine", "run_10", "run_9"]),
        ("sort=accuracy&page=2", ["run_10", "nine", "run_1"]),
        ("sort=accuracy&page=3", ["Zebra"]),
        ("sort=run&sort=started", ["two", "nine", "Zebra"]),
        ("filter=RUN_+train&sort=run", ["run_1", "run_9", "run_10"]),
        ("filter=nowhere&page=4", []),
        ("filter=aria", []),
        ("sort=no+column&page=-1", ["run_9", "run_10", "run_1"]),
        ("page=0&sort=__class__&filter=", ["run_9", "run_10", "run_1"]),
        ("&".join(["run=x"] * 2000), ["run_9", "run_10", "run_1"]),
    ],
)
def test_words_and_order_are_those_of_all_runs(root: Path, query: str, expected: list[str]) -> None:
    assert shown(root, f"/?{query}") == expected


def test_chosen_runs_stay_chosen_on_other_pages(root: Path) -> None:
    page = page_of(root, "/?page=2&run=run_9&run=nine&run=no_such_run")
    assert re.findall(r'value="(\w+)" aria-label="compare \w+" checked', page) == ["run_9", "nine"]
    assert page.index('id="elsewhere"') < page.index("compare run_9") < page.index('id="table"')


def test_buttons_keep_the_words_and_the_order(root: Path) -> None:
    page = page_of(root, "/?page=2&sort=-accuracy&filter=<script>toy")
    assert "<script>toy" not in page
    assert 'value="&lt;script&gt;toy"' in page
    page = page_of(root, "/?page=2&sort=-accuracy&filter=toy")
    assert '<input type="hidden" name="sort" value="-accuracy">' in page
    assert 'aria-sort="descending"><button type="submit" formaction="/" name="sort" value="accuracy">' in page
    assert re.findall(r'name="page" value="(\d)"', page) == ["1", "3"]
    assert "page 2 of 3" in unescape(page)
    assert "7 of 7" in page


def test_few_runs_are_on_one_page_which_the_script_sorts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chop.reporting.view.overview.PAGE_SIZE", 7)
    page = page_of(root, "/?page=2&sort=run&filter=nine")
    assert names(page) == list(RUNS)
    assert "formaction" not in page
