"""`ch emit`."""

from __future__ import annotations

from pathlib import Path

from tabulate import tabulate

from chop.config import EmitConfig
from chop.hardware.describe import HEADINGS, table_rows
from chop.hardware.emit import REPORTS, write_rtl, write_testbench
from chop.hardware.rtl.design import Design, make_design
from chop.hardware.synthesis.route import INSTALL, is_available, routed_mhz
from chop.hardware.synthesis.yosys import measure_area
from chop.implementing import design_options, prepare_run
from chop.runs.run import open_run


def emit(config: EmitConfig) -> Path:
    """Write the circuit of a run's model, print a table of its parts and return its folder."""
    if config.route and not is_available():
        raise ValueError(f"--route needs nextpnr for ECP5: {INSTALL}")
    run = open_run(config.run, config.project_dir)
    prepared = prepare_run(run, config)
    design = make_design(prepared.program, design_options(config))
    folder = run.folder.hardware
    files = write_rtl(design, folder, config.axi_stream)
    write_testbench(design, folder, config.axi_stream)
    print_design(design)
    if config.synthesis != "none":
        area = measure_area(files, config.name, folder / REPORTS, config.synthesis)
        print(f"Yosys, {config.synthesis}: {area.lut} LUT, {area.ff} FF, {area.dsp} DSP, {area.bram} memories")
    if config.route:
        if config.synthesis != "ecp5":
            measure_area(files, config.name, folder / REPORTS, "ecp5")
        print(f"nextpnr, ecp5: {routed_mhz(folder / REPORTS, config.name, config.clock_mhz):.1f} MHz")
    return run.folder.circuit


def print_design(design: Design) -> None:
    """Print widths, estimated area and timing of each part of a circuit."""
    rows = table_rows(design)
    print("\n" + tabulate(rows, HEADINGS))
    print("LUT, FF and DSP are estimates for a Xilinx 7 series FPGA; latency and interval are clock cycles\n")
