"""Fills the tables of README.md and docs/performance.md from the pages in benchmarks/results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tabulate

from benchmarks.results import FOLDER, Row, read_rows

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
# A table is between `<!-- results: rounding -->` and `<!-- end -->`; the rest of a page is written by hand.
_MARKED = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_ROUNDING = "quantise 256 x 1024: "
_LARGE_LAYER = "1024 -> 1024, batch 256"
_MODES = ("evaluation", "training step")


def fill(text: str, folder: Path = FOLDER) -> str:
    """Return the text of a page with the tables that the results give."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{_text(found[2], folder)}\n\n{found[3]}", text)


def update() -> None:
    """Write the figures of all results into the pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if fill(text) != text:
            page.write_text(fill(text), encoding="utf-8")
            print(f"updated {page.relative_to(ROOT)}")


def _text(table: str, folder: Path) -> str:
    """Return a table: one of `_TABLES`, or all rows of the results page of this name."""
    page, make = _TABLES.get(table, (table, _all_rows))
    rows = read_rows(page, folder)
    return make(rows) if rows else f"Not measured yet: run `python -m benchmarks {page}`."


def _all_rows(rows: list[Row]) -> str:
    shown = [(row["what"], row["measured"], _goal(row)) for row in rows]
    return _markdown(shown, ("what", "measured", "goal"))


def _rounding(rows: list[Row]) -> str:
    """Return a row per format: with compiled loops, and without."""
    by_name = {row["what"].removeprefix(_ROUNDING): row for row in rows if row["what"].startswith(_ROUNDING)}
    shown = []
    for name, row in by_name.items():
        if not name.endswith(", eager"):
            eager = by_name.get(f"{name}, eager", {}).get("measured", "")
            shown.append((name, _number(row["measured"]), _goal(row, unit=False), _number(eager)))
    return _markdown(shown, ("format", "x `copy_`", "goal", "without numba"))


def _other_rows(rows: list[Row]) -> str:
    """Return the rows about layers and memory."""
    return _all_rows([row for row in rows if not row["what"].startswith(_ROUNDING)])


def _large_layer(rows: list[Row]) -> str:
    """Return the time of a large layer, in evaluation and training, ours and that of other libraries."""
    found: dict[str, list[str]] = {}
    for row in rows:
        name, _, mode = row["what"].replace(f", {_LARGE_LAYER}", f" {_LARGE_LAYER}").partition(f" {_LARGE_LAYER}, ")
        if mode in _MODES:
            key = "the slowest format" if name.startswith("slowest") else name.removeprefix("peer: ")
            shown = row["measured"] + (f" ({name[16:-1]})" if name.startswith("slowest") else "")
            found.setdefault(key, []).append(shown)
    head = (f"8 bits, linear layer {_LARGE_LAYER}", *_MODES)
    return _markdown([(name, *times) for name, times in found.items()], head)


def _against_lightning(rows: list[Row]) -> str:
    (row,) = (row for row in rows if "Lightning" in row["what"])
    return (
        f"Training a small network with `ch train` takes {_number(row['measured'])} times as long as with "
        "Lightning's Trainer\n([benchmarks/results/training.md](benchmarks/results/training.md))."
    )


def _goal(row: Row, *, unit: bool = True) -> str:
    limit = row.get("limit", "")
    missed = ", missed" if row.get("ok") == "NO" else ""
    return (limit if unit else " ".join(limit.split()[:2])) + missed


def _number(measured: str) -> str:
    return measured.split()[0] if measured else ""


def _markdown(rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> str:
    used = [i for i in range(len(head)) if any(row[i] for row in rows)]
    shown = [[row[i] for i in used] for row in rows]
    return tabulate.tabulate(shown, [head[i] for i in used], tablefmt="github", disable_numparse=True)


_TABLES: Mapping[str, tuple[str, Callable[[list[Row]], str]]] = {
    "rounding": ("formats", _rounding),
    "layers": ("formats", _other_rows),
    "large-layer": ("formats", _large_layer),
    "training-time": ("training", _against_lightning),
}
