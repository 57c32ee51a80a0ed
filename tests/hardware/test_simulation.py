"""The simulated circuit equals the integer program, and mistakes in it are found."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from fuzz.readers import slang_errors
from hardware_samples import (
    EVERYTHING,
    SmallCNN,
    in_formats,
    num_differences,
    program_of,
    quantized,
    with_random_norms,
)
from torch import nn

from chop.config import DesignOptions
from chop.formats.integer import Integer
from chop.hardware.cosimulate import Simulation, SimulationResult, Traffic, traffic_patterns
from chop.hardware.emit import write_rtl, write_testbench
from chop.hardware.program import Program
from chop.hardware.program.instructions import InputPort, Instruction, LinearMap, Requantize
from chop.hardware.program.signal import ExactRounding, Signal
from chop.hardware.rtl.design import Design, make_design
from chop.hardware.simulators import SIMULATORS, Verilator, find_simulator
from chop.models import get_model
from samples import LAB_CONFIG, first_quick

needs_icarus = pytest.mark.skipif(not SIMULATORS["icarus"].is_available(), reason="Icarus Verilog is not installed")
needs_verilator = pytest.mark.skipif(
    not SIMULATORS["verilator"].is_available(), reason="Verilator is not installed"
)
SIMULATOR = "icarus" if SIMULATORS["icarus"].is_available() else "verilator"
"""The simulator that is ready sooner."""
needs_simulator = pytest.mark.skipif(not SIMULATORS[SIMULATOR].is_available(), reason="no simulator is installed")


class JetInfo:
    num_features, num_classes, feature_shape = 16, 5, (16,)


def jet_program(name: str, config: dict[str, Any] = EVERYTHING) -> Program:
    model = with_random_norms(get_model(name, "cls", JetInfo()))
    return program_of(quantized(model, torch.randn(64, 16) * 2, config))[1]


def vectors_for(program: Program, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    port = program.input.out
    random = np.random.default_rng(0)
    return random.integers(port.low.ravel(), port.high.ravel() + 1, (count, port.numel))


def simulation(design: Design, folder: Path, name: str = "icarus", axi_stream: bool = False) -> Simulation:
    files = [each for write in (write_rtl, write_testbench) for each in write(design, folder, axi_stream)]
    assert slang_errors(files) == ""
    return Simulation(design, files, name, SIMULATORS[name], folder / "simulation")


def simulate_all(
    design: Design, folder: Path, count: int, name: str = "icarus", axi_stream: bool = False
) -> list[SimulationResult]:
    """Simulate with every kind of traffic, check the timing of steady traffic and return the comparisons."""
    built = simulation(design, folder, name, axi_stream)
    vectors = vectors_for(design.program, count)
    results = [built.compare(vectors, traffic) for traffic in traffic_patterns(count, design)]
    assert [str(each) for each in results] == [f"{count} of {count} vectors equal in {name}"] * 3
    assert (results[0].latency, results[0].interval) == (design.latency, design.interval)
    return results


@needs_icarus
@pytest.mark.parametrize("rounding", first_quick(get_args(ExactRounding)))
def test_requantisation_equals_the_program_for_every_integer_shift_and_width(
    rounding: ExactRounding, tmp_path: Path
) -> None:
    cases = [(s, w, signed) for s in range(-2, 8) for w in (1, 2, 3, 5) for signed in (True, False)]
    source = Signal.uniform((len(cases),), 0, -32, 31)
    limits = [(-(2 ** (w - 1)), 2 ** (w - 1) - 1) if signed else (0, 2**w - 1) for _, w, signed in cases]
    low, high = (np.array(each) for each in zip(*limits, strict=True))
    shift = np.array([s for s, _, _ in cases])
    port = InputPort(name="x", node="x", reads=(), out=source, rounding="floor")
    out = Signal(-shift, low, high)
    last = Requantize(name="q", node="q", reads=("x",), out=out, shift=shift, rounding=rounding, before=source)
    design = make_design(Program({"x": port, "q": last}, "q"), DesignOptions())
    rows = np.repeat(np.arange(-32, 32)[:, None], len(cases), axis=1)
    result = simulation(design, tmp_path).compare(rows)
    assert result.mismatch is None


@needs_icarus
def test_jsc_tiny_unrolled_in_icarus(tmp_path: Path) -> None:
    simulate_all(make_design(jet_program("jsc-tiny"), DesignOptions()), tmp_path, 300)


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("options", [
    DesignOptions(strategy={"default": "folded"}, p_in=3, p_out=2),
    DesignOptions(stages=1),
    DesignOptions(latency_cutoff=1, solver="csd"),
    DesignOptions(strategy={"seq_blocks_5": "folded"}, p_in=8, p_out=8),
], ids=["folded 3 x 2", "one stage", "signed digits, every adder registered", "one node folded"])  # fmt: skip
def test_jsc_toy_with_other_options(options: DesignOptions, tmp_path: Path) -> None:
    simulate_all(make_design(jet_program("jsc-toy"), options), tmp_path, 40)


@needs_icarus
@pytest.mark.parametrize("rounding", first_quick(get_args(ExactRounding)))
def test_other_roundings_and_widths(rounding: str, tmp_path: Path) -> None:
    config = {**LAB_CONFIG, "data_in_rounding": rounding, "data_in_width": 5, "data_in_frac_width": 2}
    model = with_random_norms(nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 3), nn.ReLU()))
    everything = {"by": "type", "default": {"config": config}}
    program = program_of(quantized(model, torch.randn(64, 5) * 2, everything))[1]
    for number, strategy in enumerate(("unrolled", "folded")):
        options = DesignOptions(strategy={"default": strategy})  # type: ignore[dict-item]
        simulate_all(make_design(program, options), tmp_path / str(number), 60)


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("pool", [nn.AvgPool2d((1, 2)), nn.MaxPool2d(2)], ids=str)
def test_a_cnn_with_every_kind_of_node(pool: nn.Module, tmp_path: Path) -> None:
    model = with_random_norms(SmallCNN(pool))
    size = (4, 6) if isinstance(pool, nn.AvgPool2d) else (5, 5)
    program = program_of(quantized(model, torch.randn(20, 1, *size) * 2))[1]
    simulate_all(make_design(program, DesignOptions()), tmp_path, 12)


@needs_icarus
@pytest.mark.slow
def test_pruned_weights_and_channels_cost_nothing(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    with torch.no_grad():
        for layer in (model[0], model[2]):
            assert isinstance(layer, nn.Linear)
            layer.weight[1] = 0
            layer.bias[1] = 0
            layer.weight[:, 2] = 0
    program = program_of(quantized(model, torch.randn(8, 4)))[1]
    design = make_design(program, DesignOptions())
    simulate_all(design, tmp_path, 50)
    folded = make_design(program, DesignOptions(strategy={"default": "folded"}))
    simulate_all(folded, tmp_path / "folded", 20)
    with torch.no_grad():
        for parameter in model[0].parameters():
            parameter.zero_()
    assert make_design(program_of(quantized(model, torch.randn(8, 4)))[1], DesignOptions()).estimate.lut < 40


@needs_simulator
@pytest.mark.slow
def test_a_channel_that_is_always_a_negative_power_of_two_has_as_many_bits_as_its_port(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Conv2d(2, 1, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1))  # type: ignore[operator]
        model[0].bias.copy_(torch.tensor([-2.0, 0.0]))  # type: ignore[operator]
    same = {"weight": Integer(4, 2), "bias": Integer(4, 1)}
    x = torch.arange(-8, 8).repeat(2, 1).T.reshape(16, 1, 1, 2) / 4
    graph = in_formats(model, x, {"data_in_0": Integer(4, 2), **same}, {"data_in_0": Integer(2, 0), **same})
    graph, program = program_of(graph)
    assert num_differences(graph, program, x) == 0
    built = simulation(make_design(program, DesignOptions()), tmp_path, SIMULATOR)
    assert str(built.compare(program.quantize(x.numpy()))) == f"16 of 16 vectors equal in {SIMULATOR}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("icarus", "expects 112 bits, got 111", marks=needs_icarus),
        pytest.param("verilator", "WIDTH", marks=needs_verilator),
    ],
)
def test_a_port_of_another_width_is_an_error_of_the_simulation(name: str, message: str, tmp_path: Path) -> None:
    design = make_design(jet_program("jsc-tiny"), DesignOptions())
    text = design.files["network.sv"].replace("wire [111:0] d_seq_blocks_0;", "wire [110:0] d_seq_blocks_0;")
    assert text != design.files["network.sv"]
    wrong = dataclasses.replace(design, files={**design.files, "network.sv": text})
    with pytest.raises(ValueError, match=message):
        simulation(wrong, tmp_path, name)


def change(program: Program, kind: type[Instruction], edit: Callable[[Any], Any]) -> Program:
    """Return a program in which the last instruction of a kind is replaced."""
    found = [each for each in program if isinstance(each, kind)][-1]
    return Program({**program.instructions, found.name: edit(found)}, program.result)


def with_matrix(found: LinearMap, edit: Callable[[Any], None]) -> LinearMap:
    block = found.blocks[0]
    matrix = block.matrix.copy()
    edit(matrix)
    return dataclasses.replace(found, blocks=(dataclasses.replace(block, matrix=matrix),))


def flip_a_bit(matrix: Any) -> None:
    matrix[2, 3] ^= 1


def swap_lanes(matrix: Any) -> None:
    matrix[:, [0, 1]] = matrix[:, [1, 0]]


@needs_icarus
@pytest.mark.parametrize("strategy", first_quick(["folded", "unrolled"]))
@pytest.mark.parametrize(
    ("mutate", "node"),
    [
        (lambda p: change(p, LinearMap, lambda each: with_matrix(each, flip_a_bit)), "seq_blocks_3"),
        (lambda p: change(p, LinearMap, lambda each: with_matrix(each, swap_lanes)), "seq_blocks_3"),
        (lambda p: change(p, Requantize, lambda each: dataclasses.replace(each, rounding="floor")), "seq_blocks_3"),
    ],
    ids=["a flipped bit of a weight", "swapped lanes", "another rounding"],
)
def test_a_mutated_circuit_is_found_with_its_node(
    mutate: Callable[[Program], Program], node: str, strategy: Any, tmp_path: Path
) -> None:
    program = jet_program("jsc-tiny")
    design = make_design(mutate(program), DesignOptions(strategy={"default": strategy}))
    result = simulation(dataclasses.replace(design, program=program), tmp_path).compare(vectors_for(program, 200))
    assert result.mismatch is not None
    assert result.mismatch.node == node
    assert result.num_equal < 200
    where = result.mismatch.divergence
    assert where is not None
    assert where.found != where.expected
    assert f"the first node that differs is '{node}'" in str(result.mismatch)
    assert f"in element {where.element}: simulated {where.found}, expected {where.expected}" in str(result.mismatch)


@needs_icarus
def test_an_accumulator_that_is_too_narrow_is_found(tmp_path: Path) -> None:
    program = jet_program("jsc-tiny")
    design = make_design(program, DesignOptions())
    name = "network_seq_blocks_2.sv"
    # The last sums have the widest wires; two bits less, sign-extended from below, overflow.
    widest = max(int(bits) for bits in re.findall(r"wire signed \[(\d+):0\]", design.files[name]))
    text = re.sub(
        rf"wire signed \[{widest}:0\] (v\d+) = (.*);",
        lambda m: (
            f"wire signed [{widest - 3}:0] n{m[1]} = {widest - 2}'({m[2]});\n"
            f"    wire signed [{widest}:0] {m[1]} = {widest + 1}'(n{m[1]});"
        ),
        design.files[name],
    )
    assert text != design.files[name]
    mutated = dataclasses.replace(design, files={**design.files, name: text})
    result = simulation(mutated, tmp_path).compare(vectors_for(program, 200))
    assert result.mismatch is not None
    assert result.mismatch.node in ("seq_blocks_2", "seq_blocks_3")


@needs_icarus
def test_a_rom_file_can_be_replaced_without_writing_the_circuit_again(tmp_path: Path) -> None:
    program = jet_program("jsc-tiny")
    other = change(program, LinearMap, lambda each: with_matrix(each, flip_a_bit))
    options = DesignOptions(strategy={"default": "folded"})
    design, changed = make_design(program, options), make_design(other, options)
    roms = {name: text for name, text in changed.files.items() if name.endswith(".mem")}
    mixed = dataclasses.replace(design, files={**design.files, **roms}, program=other)
    assert simulation(mixed, tmp_path).compare(vectors_for(program, 100)).mismatch is None


@needs_icarus
def test_a_result_that_never_comes_is_reported(tmp_path: Path) -> None:
    design = make_design(jet_program("jsc-tiny"), DesignOptions())
    broken = design.files["network.sv"].replace("assign out_valid = s1_valid;", "assign out_valid = 1'b0;")
    stuck = dataclasses.replace(design, files={**design.files, "network.sv": broken})
    result = simulation(stuck, tmp_path).compare(vectors_for(design.program, 20))
    assert result.num_equal == 0
    assert result.mismatch is not None


@needs_icarus
def test_the_axi_stream_top_level_equals_the_program_and_a_wrong_tlast_is_found(tmp_path: Path) -> None:
    design = make_design(jet_program("jsc-tiny"), DesignOptions())
    assert design.output_stream.bits % 8  # filled to whole bytes
    simulate_all(design, tmp_path, 100, axi_stream=True)
    top = tmp_path / "rtl" / "network_axis.sv"
    top.write_text(top.read_text().replace("m_axis_tlast = 1'b1", "m_axis_tlast = ~out_data[0]"))
    files = [*sorted((tmp_path / "rtl").iterdir()), *sorted((tmp_path / "tb").iterdir())]
    wrong = Simulation(design, files, "icarus", SIMULATORS["icarus"], tmp_path / "wrong")
    with pytest.raises(ValueError, match="TLAST"):
        wrong.compare(vectors_for(design.program, 100))


@needs_verilator
@pytest.mark.slow
def test_jsc_tiny_with_1000_vectors_in_verilator(tmp_path: Path) -> None:
    results = simulate_all(make_design(jet_program("jsc-tiny"), DesignOptions()), tmp_path, 1000, "verilator")
    assert results[0].seconds < 1.0


@pytest.mark.slow
@needs_verilator
@pytest.mark.parametrize("strategy", ["unrolled", "folded"])
def test_every_file_is_clean_for_verilator_with_all_warnings(strategy: Any, tmp_path: Path) -> None:
    verilator = SIMULATORS["verilator"]
    assert isinstance(verilator, Verilator)
    design = make_design(jet_program("jsc-toy"), DesignOptions(strategy={"default": strategy}))
    files = [path for path in write_rtl(design, tmp_path, axi_stream=True) if path.suffix == ".sv"]
    for top in ("network", "network_axis"):
        assert (
            verilator.lint([path for path in files if top in path.name or "axis" not in path.name], top, tmp_path)
            == ""
        )


@needs_verilator
@pytest.mark.slow
@pytest.mark.parametrize("rounding", get_args(ExactRounding))
def test_every_rounding_is_clean_for_verilator(rounding: ExactRounding, tmp_path: Path) -> None:
    source = Signal.uniform((2,), 0, -32, 31)
    port = InputPort(name="x", node="x", reads=(), out=source, rounding="floor")
    shift, out = np.array([2, 4]), Signal.uniform((2,), -2, -1, 0)
    last = Requantize(name="q", node="q", reads=("x",), out=out, shift=shift, rounding=rounding, before=source)
    files = write_rtl(make_design(Program({"x": port, "q": last}, "q"), DesignOptions()), tmp_path)
    verilator = SIMULATORS["verilator"]
    assert isinstance(verilator, Verilator)
    assert verilator.lint(files, "network", tmp_path) == ""


@needs_verilator
@pytest.mark.slow
def test_a_cnn_is_clean_for_verilator(tmp_path: Path) -> None:
    verilator = SIMULATORS["verilator"]
    assert isinstance(verilator, Verilator)
    model = with_random_norms(SmallCNN(nn.MaxPool2d(3)))
    design = make_design(program_of(quantized(model, torch.randn(20, 1, 8, 8) * 2))[1], DesignOptions())
    assert verilator.lint(write_rtl(design, tmp_path), "network", tmp_path) == ""


def test_a_missing_simulator_is_reported_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(ValueError, match="icarus is not installed: apt-get install iverilog; or use --emulate"):
        find_simulator("icarus")


def test_traffic_is_described() -> None:
    assert str(Traffic()) == "one vector per cycle"
    assert str(Traffic(20, 40, 505)) == "20 % bubbles, 40 % stalls, reset in cycle 505"
