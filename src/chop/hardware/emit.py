"""Writes the files of a design."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from chop.files import write_json, write_text
from chop.hardware.describe import describe_stream, describe_units
from chop.hardware.rtl.design import Design
from chop.hardware.rtl.top import axi_stream_module
from chop.hardware.templates import fill
from chop.hardware.testbench import testbench_files

RTL, TESTBENCH, SCRIPTS, REPORTS = "rtl", "tb", "scripts", "reports"
MANIFEST = "manifest.json"


def write_rtl(design: Design, folder: Path, axi_stream: bool = False) -> list[Path]:
    """Write the circuit, scripts for vendor tools and the manifest; return the files of the circuit."""
    files = dict(design.files)
    if axi_stream:
        name = f"{design.options.name}_axis.sv"
        files[name] = axi_stream_module(design.options.name, design.input_stream, design.output_stream)
    paths = _write(folder / RTL, files)
    _write(folder / SCRIPTS, vendor_files(design))
    (folder / REPORTS).mkdir(exist_ok=True)
    write_json(folder / MANIFEST, manifest(design, files))
    return paths


def write_testbench(design: Design, folder: Path, axi_stream: bool = False) -> list[Path]:
    """Write the test bench and return its files."""
    return _write(folder / TESTBENCH, testbench_files(design, axi_stream))


def manifest(design: Design, files: dict[str, str]) -> dict[str, Any]:
    """Return what a design is, as plain data: the same for the same program and options."""
    return {
        "top": design.options.name,
        "input": describe_stream(design.input, design.input_stream),
        "output": describe_stream(design.output, design.output_stream),
        "latency": design.latency,
        "interval": design.interval,
        "estimate": vars(design.estimate),
        "units": describe_units(design),
        "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(files.items())},
    }


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    """Write text files into a folder, and delete those of an earlier design."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in files:
            path.unlink()
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in sorted(files)]


def vendor_files(design: Design) -> dict[str, str]:
    """Return scripts that synthesise a design with vendor tools, by name; they are run in the folder `scripts`."""
    name, clock = design.options.name, f"create_clock -name clk -period {1000 / design.options.clock_mhz:.3f}"
    sources = [f"../rtl/{file}" for file in design.files if file.endswith(".sv")]
    memories = [f"../rtl/{file}" for file in design.files if file.endswith(".mem")]
    vivado = [f"read_verilog -sv {{{' '.join(sources)}}}", *(f"read_mem {file}" for file in memories)]
    kinds = [("SYSTEMVERILOG_FILE", file) for file in sources] + [("MISC_FILE", file) for file in memories]
    quartus = [f"set_global_assignment -name {kind} {file}" for kind, file in kinds]
    return {
        "vivado.tcl": fill("vivado.tcl", NAME=name, SOURCES="\n".join(vivado)),
        f"{name}.xdc": f"{clock} [get_ports clk]\n",
        "quartus.tcl": fill("quartus.tcl", NAME=name, SOURCES="\n".join(quartus)),
        f"{name}.sdc": f"{clock} [get_ports clk]\nderive_clock_uncertainty\n",
    }
