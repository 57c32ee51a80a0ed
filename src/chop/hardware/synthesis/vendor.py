"""Project scripts and constraints for Vivado and Quartus, as text."""

from __future__ import annotations

from chop.hardware.rtl.design import Design

VIVADO_PART = "xc7a100tcsg324-1"
QUARTUS_FAMILY, QUARTUS_DEVICE = "Cyclone V", "5CSEMA5F31C6"


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
