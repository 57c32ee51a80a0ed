"""What tools say that read the files of a circuit: slang, Verilator and Yosys."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from chop.hardware import synthesis
from chop.hardware.simulators import SIMULATORS, Verilator, run_tool

SLANG = Path(__file__).with_name("slang.py")
SECONDS = 60


def check_readable(files: Sequence[Path], top: str, folder: Path) -> None:
    """Raise an error if a tool refuses the files of a circuit, or if Verilator has any warning about them."""
    errors = slang_errors(files)
    assert not errors, errors
    verilator = SIMULATORS["verilator"]
    assert isinstance(verilator, Verilator)
    if verilator.is_available():
        warnings = verilator.lint([path for path in files if path.suffix == ".sv"], top, folder)
        assert not warnings, warnings
    if synthesis.has_yosys():
        synthesis.run_yosys(files, [f"hierarchy -check -top {top}", "proc"], folder / "yosys")


def slang_errors(files: Sequence[Path]) -> str:
    """Elaborate the SystemVerilog among some files with slang, and return its errors.

    In a process of its own: in that of pytest, the package warns of leaks when Python ends.
    """
    sources = [str(path.absolute()) for path in files if path.suffix == ".sv"]
    return run_tool([sys.executable, str(SLANG), *sources], Path.cwd(), SECONDS)
