"""The time that commands need to start, compared with importing torch."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.results import Result
from benchmarks.timing import process_times

SUMMARY = (
    "CPU seconds of a whole process: imports, work and output, median of repeats that alternate. The limits are "
    "`import torch` in the same run plus 0.3 s for `ch info formats`, and plus 1 s for `ch transform`, which "
    "evaluates jsc-toy on the test split of the generated jets before and after."
)
_CONFIG = Path(__file__).parents[1] / "configs" / "examples" / "jsc_toy_by_type.toml"


def run(quick: bool = False) -> list[Result]:
    """Return all measurements; `quick` is for tests, with too few repeats for meaningful numbers."""
    with TemporaryDirectory() as folder:
        output = ("--project-dir", folder, "--log-level", "error")
        commands = {
            "ch --help": (("--help",), math.inf),
            "ch info formats": (("info", "formats"), 0.3),
            "ch transform jsc-toy jsc": (("transform", "--config", str(_CONFIG), *output), 1.0),
            "ch test jsc-toy jsc": (("test", "jsc-toy", "jsc", *output), math.inf),
        }
        chop = (sys.executable, "-m", "chop")
        import_torch, *times = process_times(
            (sys.executable, "-c", "import torch"),
            *((*chop, *arguments) for arguments, _ in commands.values()),
            repeats=1 if quick else 5,
        )
    return [
        Result("import torch", import_torch, math.inf, "s"),
        *(
            Result(name, taken, import_torch + more, "s")
            for (name, (_, more)), taken in zip(commands.items(), times, strict=True)
        ),
    ]
