"""Networks whose elements have different widths: PyTorch, the integer program and the circuit agree."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hardware_samples import annotated
from hypothesis import given
from hypothesis import strategies as st
from test_simulation import simulation
from torch import Tensor, nn

from chop.config import DesignOptions, Strategy
from chop.files import read_json
from chop.formats.integer import Integer
from chop.formats.mixed_integer import MixedInteger
from chop.hardware.describe import describe_signal
from chop.hardware.emit import MANIFEST, write_rtl
from chop.hardware.node_estimate import estimate_node
from chop.hardware.prepare import HardwareModel, prepare
from chop.hardware.program import Signal
from chop.hardware.resolve.layers import set_formats
from chop.hardware.rtl.design import make_design
from chop.hardware.simulators import SIMULATORS, Verilator
from chop.ir import MaseGraph

# Both simulators run the same files. A build of Verilator takes 9 s; `make test-hardware` uses it.
SIMULATOR = "verilator" if "CHOP_TEST_HARDWARE" in os.environ else "icarus"
needs_simulators = pytest.mark.skipif(
    not all(simulator.is_available() for simulator in SIMULATORS.values()),
    reason="Verilator or Icarus Verilog is not installed",
)


def random_format(shape: tuple[int, ...], signed: bool, random: torch.Generator) -> MixedInteger:
    """Return a format with widths of 0 to 6 bits."""
    widths = torch.randint(0, 7, shape, generator=random)
    fractions = widths - torch.randint(0, 4, shape, generator=random)
    rounding = "nearest_even" if signed else "nearest_away"
    return MixedInteger.of(widths, fractions, is_signed=signed, rounding=rounding)


def mixed(model: nn.Module, x: Tensor, seed: int = 0, per_channel: bool = False) -> MaseGraph:
    """Return a graph whose linear layers and convolutions have random widths for all elements or channels."""
    random = torch.Generator().manual_seed(seed)
    graph = annotated(model, x)
    first = True
    for meta in graph.annotated_metas():
        if meta.mase_op not in ("linear", "conv2d"):
            continue
        row = tuple(meta.args["data_in_0"].shape[1:])
        weight = tuple(meta.args["weight"].shape)
        if per_channel:
            row, weight = (row[0], *(1,) * (len(row) - 1)), (weight[0], *(1,) * (len(weight) - 1))
        formats = {
            "data_in_0": random_format(row, first, random),
            "weight": random_format(weight, True, random),
            "bias": random_format(tuple(meta.args["bias"].shape), True, random),
        }
        set_formats(meta, formats)
        first = False
    return graph


def perceptron(*sizes: int) -> nn.Module:
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def check(graph: MaseGraph, x: Tensor) -> HardwareModel:
    """Check that PyTorch and the integer program agree."""
    ready = prepare(graph)
    assert ready.num_differences(x.numpy()) == 0
    return ready


@pytest.mark.slow
@given(sizes=st.lists(st.integers(1, 7), min_size=2, max_size=4), seed=st.integers(0, 2**16))
def test_random_perceptrons_equal_fake_quantisation(sizes: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(50, sizes[0]) * 4
    check(mixed(perceptron(*sizes), x, seed), x)


def test_widths_per_channel_of_a_cnn() -> None:
    torch.manual_seed(1)
    x = torch.randn(20, 2, 6, 6) * 4
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    )
    check(mixed(model, x, per_channel=True), x)


def test_widths_per_element_before_a_convolution_are_refused() -> None:
    x = torch.randn(2, 1, 4, 4)
    with pytest.raises(ValueError, match="the elements of one channel have different fraction bits"):
        prepare(mixed(nn.Sequential(nn.Conv2d(1, 2, 3)), x))


def test_an_input_with_two_formats_is_refused() -> None:
    class TwoReaders(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            total: Tensor = self.first(x) + self.second(x)
            return total

    with pytest.raises(ValueError, match="needs one number format"):
        prepare(mixed(TwoReaders(), torch.randn(2, 3)))


@needs_simulators
def test_the_circuit_equals_the_integer_program(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(100, 6) * 4
    ready = check(mixed(perceptron(6, 8, 5, 3), x), x)
    design = make_design(ready.program, DesignOptions())
    built = simulation(design, tmp_path, SIMULATOR)
    assert str(built.compare(ready.program.quantize(x.numpy()))) == f"100 of 100 vectors equal in {SIMULATOR}"


def classifier() -> tuple[MaseGraph, Tensor]:
    """Return a layer whose outputs have 1, 4, 2 and 0 fraction bits, and one that is always 0; and rows."""
    layer = nn.Linear(3, 5)
    layer.weight.data = torch.tensor([[3.5, 0, 0], [0, 1.0625, 0], [0, 0, 1.25], [2, 0, 0], [0, 0, 0]])
    layer.bias.data = torch.tensor([0.0, 0, 0, 1, 0])
    x = torch.randint(-4, 4, (200, 3), generator=torch.Generator().manual_seed(0)).float()
    graph = annotated(nn.Sequential(layer), x)
    (meta,) = (meta for meta in graph.annotated_metas() if meta.mase_op == "linear")
    widths = torch.tensor([[6], [7], [6], [6], [0]])
    weight = MixedInteger.of(widths, torch.tensor([[1], [4], [2], [0], [0]]))
    set_formats(meta, {"data_in_0": Integer(4, 0), "weight": weight, "bias": Integer(4, 0)})
    return graph, x


def test_integers_of_the_result_compare_where_the_classes_have_different_fraction_bits() -> None:
    graph, x = classifier()
    program = check(graph, x).program
    expected = graph.model(x).argmax(1).numpy()
    integers = program.run(program.quantize(x.numpy()))
    (before,) = program.output.reads
    unaligned = program.trace(program.quantize(x.numpy()))[before]
    assert program[before].out.frac.tolist() == [1, 4, 2, 0, 0]
    assert (unaligned.argmax(1) != expected).mean() > 0.1
    assert (integers.argmax(1) == expected).all()
    assert program.output.out.frac.tolist() == [4] * 5
    assert program.output.out.widths().tolist() == [10, 9, 9, 9, 0]  # -28 with 4 fraction bits is -448


@needs_simulators
@pytest.mark.parametrize(("strategy", "axi_stream"), [("unrolled", True), ("folded", False)])
def test_the_output_port_has_one_format(strategy: Strategy, axi_stream: bool, tmp_path: Path) -> None:
    graph, x = classifier()
    program = prepare(graph).program
    design = make_design(program, DesignOptions(strategy={"_0": strategy}))
    built = simulation(design, tmp_path, SIMULATOR, axi_stream)
    assert read_json(tmp_path / MANIFEST)["output"] == {
        "shape": [5], "lanes": 5, "width": 10, "frac": 4, "signed": True
    }  # fmt: skip
    verilator = SIMULATORS["verilator"]
    assert isinstance(verilator, Verilator)
    top = f"network{'_axis' if axi_stream else ''}"
    assert verilator.lint(list((tmp_path / "rtl").glob("*.sv")), top, tmp_path) == ""
    assert str(built.compare(program.quantize(x.numpy()))) == f"200 of 200 vectors equal in {SIMULATOR}"


@needs_simulators
def test_pixels_of_the_result_have_one_format(tmp_path: Path) -> None:
    torch.manual_seed(1)
    x = torch.randn(10, 2, 6, 6) * 4
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
    program = check(mixed(model, x, per_channel=True), x).program
    assert len(np.unique(program[program.output.reads[0]].out.frac)) > 1
    design = make_design(program, DesignOptions(strategy={"default": "stream_conv"}))
    assert design.output_stream.beats == 16
    built = simulation(design, tmp_path, SIMULATOR)
    assert str(built.compare(program.quantize(x.numpy()))) == f"10 of 10 vectors equal in {SIMULATOR}"
    assert len(np.unique(design.output.frac)) == 1


def test_alignment_does_not_make_float32_inexact() -> None:
    layer = nn.Linear(1, 2, bias=False)
    layer.weight.data = torch.tensor([[2.0**10], [2.0**-12]])
    x = torch.tensor([[1.0], [-3.0]])
    graph = annotated(nn.Sequential(layer), x)
    (meta,) = (meta for meta in graph.annotated_metas() if meta.mase_op == "linear")
    weight = MixedInteger.of(torch.tensor([[2], [2]]), torch.tensor([[-10], [12]]))
    set_formats(meta, {"data_in_0": Integer(4, 0), "weight": weight})
    program = check(graph, x).program
    assert program.bound > 2**24
    assert program.beyond_float32 == ()
    assert program.run(np.array([[1], [-3]])).tolist() == [[2**22, 1], [-3 * 2**22, -3]]


def test_sums_before_a_width_of_0_bits_have_no_adders(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(20, 4)
    graph = annotated(perceptron(4, 3, 2), x)
    first, second = (meta for meta in graph.annotated_metas() if meta.mase_op == "linear")
    same = {"weight": Integer(4, 2), "bias": Integer(4, 2)}
    set_formats(first, same | {"data_in_0": Integer(6, 3)})
    adders = []
    for bits in (4, 0):
        data = MixedInteger((0, bits, 0), (0, 0, 0), (3,), is_signed=False, rounding="nearest_away")
        set_formats(second, same | {"data_in_0": data})
        design = make_design(check(graph, x).program, DesignOptions())
        files = write_rtl(design, tmp_path / str(bits))
        (text,) = (path.read_text() for path in files if path.stem == design.units[0].module)
        adders.append(text.count(" + ") + text.count(" - "))
    assert 0 < adders[0] <= 12  # one output of 4 weights, at most two signed digits each, rounding and bias
    assert adders[1] == 0


def test_a_strategy_holds_for_the_named_node_and_not_for_the_one_before_it() -> None:
    x = torch.randn(20, 4)
    graph = annotated(perceptron(4, 3, 2), x)
    for meta in graph.annotated_metas():
        if meta.mase_op == "linear":
            set_formats(meta, {"data_in_0": Integer(6, 3), "weight": Integer(4, 2), "bias": Integer(4, 2)})
    design = make_design(prepare(graph).program, DesignOptions(strategy={"_2": "folded"}))
    assert [(each.unit.nodes, each.strategy) for each in design.units] == [
        (("_0", "_1"), "unrolled"),
        (("_2",), "folded"),
    ]


def test_ports_list_the_fraction_bits_of_each_element() -> None:
    fractions = np.array([3, -1, 3])
    assert describe_signal(Signal(fractions, np.zeros(3, dtype=int), np.full(3, 7)))["frac"] == [3, -1, 3]
    assert describe_signal(Signal.uniform((3,), 2, 0, 7))["frac"] == 2


def test_the_estimate_counts_each_element() -> None:
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = torch.tensor([[0.75, 0.75]])
    (meta,) = [m for m in annotated(nn.Sequential(layer), torch.randn(1, 2)).annotated_metas() if m.module]
    uniform = {"data_in_0": Integer(8, 4), "weight": Integer(4, 2)}
    same = {"data_in_0": MixedInteger((8, 8), (4, 4), (2,)), "weight": MixedInteger((4, 4), (2, 2), (1, 2))}
    pruned = same | {"weight": MixedInteger((4, 0), (2, 2), (1, 2))}
    luts = []
    for formats in (uniform, same, pruned, same | {"weight": MixedInteger((0, 0), (2, 2), (1, 2))}):
        set_formats(meta, formats)
        luts.append(estimate_node(meta, "unrolled").lut)
    assert luts[0] == luts[1] > luts[2] > luts[3] == 16  # the rounding of two inputs of 8 bits
    assert np.isfinite(luts).all()
