"""Pages can be made from any content of a run's files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chop.reporting.view.html import element, join, run_address
from chop.reporting.view.overview import overview_page
from chop.reporting.view.pages import compare_page, run_page
from chop.reporting.view.run_record import list_records
from reporting.view.conftest import Ask, train_summary, transform_summary

WORDS = """
    action model dataset data title test before after accuracy loss parameters seconds checkpoint
    cost samples bitops macs measured pass what trials complete front best
    rows runs metadata args format name width
"""
KEYS = WORDS.split()
values = st.none() | st.booleans() | st.floats() | st.integers() | st.integers(10**299) | st.text(max_size=8)
documents = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        values,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
        max_leaves=12,
    ),
    max_size=8,
)
FILES = ("summary.json", "grid.json", "software/transform/transformed_ckpt/graph.json")


@pytest.mark.slow
@given(contents=st.tuples(*[documents] * len(FILES)))
def test_every_page_can_be_made_from_any_content(
    contents: tuple[Any, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("out")
    for name in ("a", "b"):
        for file, content in zip(FILES, contents, strict=True):
            if content:
                (root / name / file).parent.mkdir(parents=True, exist_ok=True)
                (root / name / file).write_text(json.dumps(content))
    records = list_records(root)
    pages = [overview_page(root, records), *(run_page(record) for record in records)]
    pages += [compare_page(records)] if len(records) == 2 else []
    assert all(page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n") for page in pages)


@pytest.mark.parametrize("depth", [11, 13, 500, 900])
def test_deeply_nested_tables_are_shown(project: Path, depth: int) -> None:
    nested: dict[str, Any] = {"x": 1}
    for _ in range(depth):
        nested = {"x": nested}
    (project / "deep").mkdir()
    (project / "deep/summary.json").write_text(json.dumps(nested))
    (record,) = list_records(project)
    assert run_page(record).count("x.x.x.") >= 1


def test_a_key_figure_has_its_exact_value_and_the_one_before(project: Path) -> None:
    for name, summary in (("a", train_summary(0.5)), ("b", transform_summary(0.625, 8.0, 25600))):
        (project / name).mkdir()
        (project / name / "summary.json").write_text(json.dumps(summary))
    page = overview_page(project, list_records(project))
    assert '<td class="figure" data-value="6400.0" title="6,400, was 102 k">6.4 k</td>' in page
    assert '<td class="text" data-value="toy" title="toy, 1.23 k parameters">toy</td>' in page


def test_nan_and_infinity_are_not_sorted(project: Path) -> None:
    (project / "a").mkdir()
    cost = '{"after": {"weight_bits": 1, "average_weight_bits": Infinity}}'
    (project / "a/summary.json").write_text(f'{{"test": {{"accuracy": NaN}}, "cost": {cost}}}')
    page = overview_page(project, list_records(project))
    assert '<td class="figure" title="not a number">not a number</td>' in page
    assert '<td class="figure" title="∞">∞</td>' in page


def test_empty_columns_are_left_out(project: Path) -> None:
    (project / "a").mkdir()
    (project / "a/summary.json").write_text(json.dumps(train_summary(0.5)))
    page = overview_page(project, list_records(project))
    assert ">accuracy</th>" in page
    assert ">BitOPs</th>" not in page


def test_a_grid_links_to_its_runs(project: Path) -> None:
    rows = [{"batch_size": 64, "training loss": [0.5, 0.25], "runs": ["out/a", "/x/b"]}]
    (project / "grid").mkdir()
    (project / "grid/grid.json").write_text(json.dumps({"title": "toy, data: jsc", "rows": rows}))
    (record,) = list_records(project)
    page = run_page(record)
    assert "<td>64</td><td>0.5, 0.25</td>" in page
    assert '<a href="/run/a">a</a>' in page
    assert '<a href="/run/b">b</a>' in page


def test_a_sweep_shows_its_table_and_marks_the_best_setting(add_run: Callable[..., Path], project: Path) -> None:
    rows = [
        {"format": name, "bits": bits, "accuracy": 0.5, "loss": 1.5, "bitops": 2000.0, "weight_bits": 800.0}
        for name, bits in (("integer", 8), ("mxfp e2m3", 6.25))
    ]
    test = {"accuracy": 0.5, "loss": 1.5}
    cost = {"samples": 1, "before": {"bitops": 9000.0}, "after": {"bitops": 2000.0}}
    best = "mxfp e2m3, 6.25 bits"
    add_run("swept", {"action": "sweep", "rows": rows, "best": best, "test": test, "cost": cost, "baseline": test})
    (record,) = list_records(project)
    page = run_page(record)
    assert page.count('<tr class="best"><td>mxfp e2m3</td><td>6.25</td><td>50.00 %</td>') == 1
    assert "<td>2 k</td><td>100 B</td>" in page
    assert record.note == f"best: {best}"
    assert "was 9 k" in page


def test_text_and_attributes_are_escaped() -> None:
    inner = element("b", None, "<i>")
    assert join(inner, "&") == "<b>&lt;i&gt;</b>&amp;"
    assert (
        element("a", {"title": "\"'<", "hidden": True, "class": None}) == '<a title="&quot;&#x27;&lt;" hidden></a>'
    )
    assert run_address("a/b?#%") == "/run/a%2Fb%3F%23%25"


def test_synthetic_data_is_marked_on_all_pages(project: Path, add_run: Callable[..., Path], ask: Ask) -> None:
    add_run("generated", train_summary(0.5))
    add_run("real", train_summary(0.5) | {"data": {"title": "jsc (openml)", "version": "openml"}})
    (project / "grid").mkdir()
    title = "toy, data: jsc (generated look-alike)"
    (project / "grid/grid.json").write_text(json.dumps({"title": title, "rows": [{"runs": []}]}))
    badge = '<span class="badge"'
    pages = {name: ask(f"/run/{name}").text.count(badge) for name in ("generated", "real", "grid")}
    assert pages == {"generated": 1, "real": 0, "grid": 1}
    assert ask("/").text.count(badge) == 2
    compared = ask("/compare?run=generated&run=real").text
    assert f"generated</a>{badge}" in compared
    assert f"real</a>{badge}" not in compared
