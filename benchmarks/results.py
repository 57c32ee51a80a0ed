"""Results of a benchmark, as a table in the terminal and a Markdown page."""

from __future__ import annotations

import math
import os
import platform
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

    @property
    def ok(self) -> bool:
        """Whether the measurement is below its limit."""
        return self.measured < self.limit


def table(results: Sequence[Result], style: str = "simple") -> str:
    """Return the results as a table in a style of tabulate."""
    rows = [
        (r.what, f"{r.measured:.2f} {r.unit}", *(("", "") if r.limit == math.inf else _limit_cells(r)), r.why)
        for r in results
    ]
    head = ("what", "measured", "limit", "ok", "why")
    used = [i for i in range(len(head)) if any(row[i] for row in rows)]
    shown = [[row[i] for i in used] for row in rows]
    return tabulate.tabulate(shown, [head[i] for i in used], tablefmt=style, disable_numparse=True)


def _limit_cells(result: Result) -> tuple[str, str]:
    return f"< {result.limit:g} {result.unit}", "yes" if result.ok else "NO"


def write_page(name: str, results: Sequence[Result], summary: str, folder: Path = FOLDER) -> Path:
    """Write the table as Markdown, with machine and versions, and return the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{name}.md"
    lines = (f"# {name}", summary, table(results, "github"), "Machine and versions:", machine())
    page.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return page


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
