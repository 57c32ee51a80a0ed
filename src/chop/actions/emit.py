"""`ch emit`."""

from __future__ import annotations

from pathlib import Path

from chop.config import EmitConfig
from chop.folder_lock import only_writer
from chop.hardware import synthesis
from chop.hardware.describe import design_table
from chop.hardware.emit import MANIFEST, REPORTS, write_rtl, write_testbench
from chop.hardware.prepare import prepare_run
from chop.hardware.rtl.design import make_design
from chop.runs.run import open_run


def emit(config: EmitConfig) -> Path:
    """Write the circuit of a run's model, print a table of its parts and return its folder."""
    if config.route and not synthesis.has_nextpnr():
        raise ValueError(f"--route needs nextpnr for ECP5: {synthesis.INSTALL_NEXTPNR}")
    if config.synthesis != "none" and not synthesis.has_yosys():
        raise ValueError(f"--synthesis needs Yosys: {synthesis.INSTALL_YOSYS}")
    run = open_run(config.run, config.project_dir, config.accelerator)
    prepared = prepare_run(run, config)
    design = make_design(prepared.program, config)
    folder = run.folder.hardware
    with only_writer(run.folder.path):
        files = write_rtl(design, folder, config.axi_stream)
        write_testbench(design, folder, config.axi_stream)
        print(design_table(design))
        if config.synthesis != "none":
            area = synthesis.measure_area(files, config.name, folder / REPORTS, config.synthesis)
            print(f"Yosys, {config.synthesis}: {area.lut} LUT, {area.ff} FF, {area.dsp} DSP, {area.bram} memories")
        if config.route:
            if config.synthesis != "ecp5":
                synthesis.measure_area(files, config.name, folder / REPORTS, "ecp5")
            print(f"nextpnr, ecp5: {synthesis.routed_mhz(folder / REPORTS, config.name, config.clock_mhz):.1f} MHz")
    return folder / MANIFEST
