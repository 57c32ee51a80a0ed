"""Writes the files of a design."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from chop.files import write_json, write_text
from chop.hardware.describe import describe_stream, describe_units
from chop.hardware.rtl.design import Design
from chop.hardware.rtl.top import axi_stream_module
from chop.hardware.testbench import testbench_files

RTL, TESTBENCH, SCRIPTS, REPORTS = "rtl", "tb", "scripts", "reports"
MANIFEST = "manifest.json"
VIVADO_PART = "xc7a100tcsg324-1"
QUARTUS_FAMILY, QUARTUS_DEVICE = "Cyclone V", "5CSEMA5F31C6"


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


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a written design."""
    content: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return content


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
    name = design.options.name
    sources = [file for file in design.files if file.endswith(".sv")]
    memories = [file for file in design.files if file.endswith(".mem")]
    period = 1000 / design.options.clock_mhz
    return {
        "vivado.tcl": _vivado(name, sources, memories),
        f"{name}.xdc": f"create_clock -name clk -period {period:.3f} [get_ports clk]\n",
        "quartus.tcl": _quartus(name, sources, memories),
        f"{name}.sdc": f"create_clock -name clk -period {period:.3f} [get_ports clk]\nderive_clock_uncertainty\n",
    }


def _vivado(name: str, sources: list[str], memories: list[str]) -> str:
    lines = [
        "# vivado -mode batch -source vivado.tcl",
        f"read_verilog -sv {{{' '.join(f'../rtl/{file}' for file in sources)}}}",
        *(f"read_mem ../rtl/{file}" for file in memories),
        f"read_xdc {name}.xdc",
        f"synth_design -top {name} -part {VIVADO_PART} -mode out_of_context",
        "opt_design",
        "place_design",
        "route_design",
        f"report_utilization -file ../reports/{name}_vivado_utilization.txt",
        f"report_timing_summary -file ../reports/{name}_vivado_timing.txt",
    ]
    return "\n".join(lines) + "\n"


def _quartus(name: str, sources: list[str], memories: list[str]) -> str:
    lines = [
        "# quartus_sh -t quartus.tcl",
        "load_package flow",
        f"project_new {name} -overwrite",
        f'set_global_assignment -name FAMILY "{QUARTUS_FAMILY}"',
        f"set_global_assignment -name DEVICE {QUARTUS_DEVICE}",
        f"set_global_assignment -name TOP_LEVEL_ENTITY {name}",
        *(f"set_global_assignment -name SYSTEMVERILOG_FILE ../rtl/{file}" for file in sources),
        *(f"set_global_assignment -name MISC_FILE ../rtl/{file}" for file in memories),
        f"set_global_assignment -name SDC_FILE {name}.sdc",
        "set_global_assignment -name VIRTUAL_PIN ON -to *",
        "execute_flow -compile",
        "project_close",
    ]
    return "\n".join(lines) + "\n"
