"""Results of a benchmark, as a table in the terminal and a Markdown page."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tabulate
import torch

import chop

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Result:
    """A measurement and its upper limit; infinite for a measurement that is shown for comparison only."""

    what: str
    measured: float
    limit: float
    unit: str
    """`ms`, or for a ratio what it is relative to: `x import torch`."""
    why: str = ""
    """Explanation of a surprising result."""
    measured_on: str = ""
    """The date, on pages whose rows may come from several runs."""

    @property
    def ok(self) -> bool:
        """Whether the measurement is below its limit."""
        return self.measured < self.limit


Row = dict[str, str]
"""The cells of a row of a results page by the names of their columns; cells without a limit are empty."""
_COLUMNS = ("what", "measured", "limit", "ok", "why", "measured on")


def table(results: Sequence[Result], style: str = "simple") -> str:
    """Return the results as a table in a style of tabulate."""
    return _table([_cells(result) for result in results], style)


def _table(rows: Sequence[Row], style: str) -> str:
    used = [column for column in _COLUMNS if any(row.get(column) for row in rows)]
    shown = [[row.get(column, "") for column in used] for row in rows]
    return tabulate.tabulate(shown, used, tablefmt=style, disable_numparse=True)


def _cells(result: Result) -> Row:
    limit, ok = f"< {result.limit:.4g} {result.unit}", "yes" if result.ok else "NO"
    if result.limit == math.inf:
        limit = ok = ""
    measured = f"{result.measured:.2f} {result.unit}"
    return dict(zip(_COLUMNS, (result.what, measured, limit, ok, result.why, result.measured_on), strict=True))


def write_page(
    name: str, results: Sequence[Result], summary: str, folder: Path = FOLDER, *, keep_others: bool = False
) -> Path:
    """Write the table as Markdown, with machine and versions, and return the path of the page.

    With `keep_others`, rows of the page in `benchmarks/results` stay if they were not measured again.
    """
    rows = [_cells(result) for result in results]
    if keep_others:
        earlier = {_measurement(row): row for row in read_rows(name, FOLDER)}
        rows = list((earlier | {_measurement(row): row for row in rows}).values())
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{name}.md"
    lines = (f"# {name}", summary, _table(rows, "github"), "Machine and versions:", machine())
    page.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return page


def _measurement(row: Row) -> str:
    """Return what a row measures, without remarks such as the accuracy in float."""
    return re.sub(r" \([^)]*\)", "", row["what"])


def read_rows(name: str, folder: Path) -> list[Row]:
    """Return the rows of a results page; none if the benchmark has not run."""
    page = folder / f"{name}.md"
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def machine() -> str:
    """Return a Markdown list of the processor, the system and the versions."""
    entries = {
        "processor": f"{_processor()}, {os.cpu_count()} cores, one thread used",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "chop": chop.__version__,
    }
    return "\n".join(f"- {key}: {value}" for key, value in entries.items())


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
