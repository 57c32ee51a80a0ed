"""What a benchmark found, as a table to print and a page to keep."""

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
    """A measurement, and the bar that it has to stay under; infinity: it is there to compare with."""

    what: str
    measured: float
    bar: float
    unit: str
    """`ms`, or what one is measured in: `x import torch`."""
    why: str = ""
    """What explains it, where that is not plain."""

    @property
    def ok(self) -> bool:
        return self.measured < self.bar


def table(results: Sequence[Result], style: str = "simple") -> str:
    rows = [
        (r.what, f"{r.measured:.2f} {r.unit}", *(("", "") if r.bar == math.inf else _against_bar(r)), r.why)
        for r in results
    ]
    head = ("what", "measured", "bar", "ok", "why")
    used = [i for i in range(len(head)) if any(row[i] for row in rows)]
    shown = [[row[i] for i in used] for row in rows]
    return tabulate.tabulate(shown, [head[i] for i in used], tablefmt=style, disable_numparse=True)


def _against_bar(result: Result) -> tuple[str, str]:
    return f"< {result.bar:g} {result.unit}", "yes" if result.ok else "NO"


def write_page(name: str, results: Sequence[Result], summary: str, folder: Path = FOLDER) -> Path:
    """The table as Markdown, with the machine and the versions that it was measured with."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{name}.md"
    lines = (f"# {name}", summary, table(results, "github"), "Machine and versions:", machine())
    page.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return page


def machine() -> str:
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
