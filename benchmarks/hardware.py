"""Area of circuits, measured by Yosys, compared with alkaid's own RTL and with plain multiplications; speed."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.areas import area_of
from benchmarks.results import Result
from chop.config import DesignOptions
from chop.dataset import MaseDataModule
from chop.hardware.adders import has_alkaid
from chop.hardware.cosimulate import Simulation
from chop.hardware.emit import write_rtl, write_testbench
from chop.hardware.prepare import prepare
from chop.hardware.program import Program
from chop.hardware.program.instructions import LinearMap, Rectify, Requantize
from chop.hardware.rtl.design import Design, make_design
from chop.hardware.rtl.units import make_units
from chop.hardware.simulators import SIMULATORS
from chop.hardware.synthesis import Area, has_yosys
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)

SUMMARY = """Jet taggers with initial weights (seed 0), all nodes in `integer`, 8 bits with 4 fraction bits unless
stated, rounded to nearest even, for a Xilinx 7 series FPGA (`synth_xilinx -family xc7`). LUT includes inverters
and shift registers.

- **alkaid's RTL** is of the same integer network (the same solver, RND_CONV, SAT), without a handshake; ours has
  one.
- **Plain products** are the same circuit with `*` for every weight, without DSP blocks. The goal of 3 x fewer LUT
  is missed with Yosys 0.70: the weights are constants, so that Yosys itself turns the products into shifts and
  additions, and ABC9 maps these sums well (1,343 LUT). All 71 weights of jsc-tiny that are not 0 are between -4
  and 4 in this format, 48 of them powers of two, so that little is left to share. Yosys 0.23 of Debian 12, which
  maps with ABC, needs 3,981 LUT for the same text, and 1,317 with `-abc9`."""


ESTIMATED = (
    ("jsc-tiny", 4, 2, False),
    ("jsc-tiny", 6, 3, False),
    ("jsc-tiny", 8, 4, False),
    ("jsc-toy", 8, 6, False),
    ("jsc-toy", 8, 4, True),
    ("jsc-toy", 6, 4, True),
)
"""Network, width, fraction bits, and whether it is trained: the estimator was not fitted to trained ones."""


class JetInfo:
    """The shape of the jet data."""

    num_features, num_classes, feature_shape = 16, 5, (16,)


def run(quick: bool = False) -> list[Result]:
    """Return all results; `quick` measures the smallest network only."""
    if not has_yosys():
        print("hardware: Yosys is not installed")
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = _areas(folder / "areas", quick)
        if not quick:
            results += _estimates(folder / "estimates") + _speeds(folder / "speeds")
        return results


def program_of(name: str, width: int = 8, fraction: int = 4, trained: bool = False) -> Program:
    """Return the integer program of a jet tagger with initial weights, or trained for some hundred steps."""
    torch.manual_seed(0)
    model = get_model(name, "cls", JetInfo())
    if trained:
        _train(model)
    graph, _ = init_metadata_analysis_pass(MaseGraph(model.eval()), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(64, 16)}})
    config: dict[str, Any] = {"name": "integer"}
    for role in ("data_in", "weight", "bias"):
        config |= {f"{role}_width": width, f"{role}_frac_width": fraction}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    return prepare(graph).program


def _train(model: nn.Module) -> None:
    data = MaseDataModule(name="jsc", batch_size=256, model_name="jsc-toy", num_workers=0)
    data.prepare_data()
    data.setup()
    rows, optimizer = data.splits.train, torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(400):
        chosen = torch.randint(len(rows.labels), (256,))
        F.cross_entropy(model(rows.features[chosen]), rows.labels[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()


def _measure(design: Design, folder: Path) -> Area:
    return area_of(write_rtl(design, folder), design.options.name, folder / "reports")


def _areas(folder: Path, quick: bool) -> list[Result]:
    results = []
    for name, limit in (("jsc-tiny", 2300), ("jsc-toy", 4800))[: 1 if quick else 2]:
        program = program_of(name)
        area = _measure(make_design(program, DesignOptions()), folder / name)
        results.append(Result(f"{name}, unrolled", area.lut, limit + 1, "LUT"))
        results.append(Result(f"{name}, unrolled", area.dsp, 1, "DSP"))
        if not quick and has_alkaid():
            own = _alkaid_area(program, folder / f"{name}-alkaid")
            results.append(
                Result(f"{name} against alkaid's RTL ({own.lut} LUT)", area.lut / own.lut, 1.15, "x its LUT")
            )
    if quick:
        return results
    tiny = results[0].measured
    plain = _plain_area(program_of("jsc-tiny"), folder / "plain")
    results.append(
        Result(
            f"jsc-tiny against plain products ({plain.lut} LUT)",
            tiny / plain.lut,
            1 / 3,
            "x its LUT",
            "constants in `*` become shifts, which ABC9 maps well",
        )
    )
    folded = _measure(
        make_design(program_of("jsc-mlp"), DesignOptions(strategy={"default": "folded"})), folder / "mlp"
    )
    results.append(Result("16-64-32-32-5, folded 4 x 4", folded.lut, 4501, "LUT"))
    results.append(Result("16-64-32-32-5, folded 4 x 4", folded.dsp, 65, "DSP"))
    return results


def _alkaid_area(program: Program, folder: Path) -> Area:
    """Return the area of alkaid's own RTL of a network, after checking that it computes the same."""
    from alkaid.codegen import RTLModel
    from alkaid.trace import FVArrayInput, HWConfig, trace

    source = program.input.out
    x = FVArrayInput((source.numel,), HWConfig(-1, -1, -1)).quantize(1, source.width - 1, 0)
    y = x
    for unit in make_units(program):
        if isinstance(unit.head, LinearMap):
            matrix, bias = _dense(unit.head)
            y = y @ matrix.T.astype(np.float64) + bias.astype(np.float64)
        for post in unit.posts:
            if isinstance(post, Rectify):
                y = y.relu()
            elif isinstance(post, Requantize):
                shift = int(post.shift[0])
                bits = post.out.width
                y = (y * 2.0**-shift).quantize(1, bits - 1, 0, "SAT", "RND_CONV")
    comb = trace(x, y)
    rows = np.random.default_rng(0).integers(-128, 128, (50, source.numel))
    expected = program.run(rows)
    found = np.stack([np.asarray(comb(row.astype(np.float64)), dtype=np.float64) for row in rows])
    assert np.array_equal(found, expected), "alkaid computes something else"
    model = RTLModel(comb, folder, prj_name="own", flavor="verilog", latency_cutoff=-1, ternary_fuse=False)
    model.write()
    files = [path for path in folder.rglob("*.v") if "sim" not in path.parts]
    copied = []
    for path in files:
        target = path.with_suffix(".sv")
        target.write_text(path.read_text())
        copied.append(target)
    return area_of(copied, "own", folder / "reports")


def _dense(head: LinearMap) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the complete matrix and bias of a linear map at one position."""
    inputs = max(int(block.reads.max()) for block in head.blocks) + 1
    matrix, bias = np.zeros((head.out.numel, inputs), dtype=np.int64), np.zeros(head.out.numel, dtype=np.int64)
    for block in head.blocks:
        matrix[np.ix_(block.writes[0], block.reads[0])] = block.matrix
        bias[block.writes[0]] = block.bias
    return matrix, bias


def _plain_area(program: Program, folder: Path) -> Area:
    """Return the area of jsc-tiny with a multiplication per weight."""
    lines, names = [], [f"$signed(x[{8 * i + 7}:{8 * i}])" for i in range(program.input.out.numel)]
    for number, unit in enumerate(make_units(program)):
        assert isinstance(unit.head, LinearMap), "jsc-tiny has sums only"
        matrix, bias = _dense(unit.head)
        made = []
        for i, (row, summand) in enumerate(zip(matrix.tolist(), bias.tolist(), strict=True)):
            terms = " + ".join(f"32'sd1 * {name} * {w}" for name, w in zip(names, row, strict=True) if w) or "0"
            wire = f"a{number}_{i}"
            lines.append(f"wire signed [31:0] {wire} = {terms} + {summand};")
            lines.append(f"wire signed [31:0] r{wire} = ({wire} + 7 + {wire}[4]) >>> 4;")
            lines.append(
                f"wire signed [7:0] q{wire} = r{wire} < 0 ? 8'sd0 : r{wire} > 127 ? 8'sd127 : r{wire}[7:0];"
            )
            made.append(f"q{wire}")
        names = made
    out = ", ".join(reversed(names))
    text = f"module plain(input clk, input [127:0] x, output reg [{8 * len(names) - 1}:0] y);\n"
    text += "\n".join(lines) + f"\nalways @(posedge clk) y <= {{{out}}};\nendmodule\n"
    folder.mkdir(parents=True)
    (folder / "plain.sv").write_text(text)
    return area_of([folder / "plain.sv"], "plain", folder / "reports", use_dsp=False)


def _estimates(folder: Path) -> list[Result]:
    """Return the largest error of the estimate, over networks, widths and strategies."""
    kinds = ("unrolled", "unrolled, trained", "folded", "folded, trained")
    errors: dict[str, list[float]] = {kind: [] for kind in kinds}
    slowest = 0.0
    for name, width, fraction, trained in ESTIMATED:
        for strategy in ("unrolled", "folded"):
            program = program_of(name, width, fraction, trained)
            start = time.perf_counter()
            design = make_design(program, DesignOptions(strategy={"default": strategy}))
            slowest = max(slowest, time.perf_counter() - start)
            case = folder / f"{name}{width}{strategy}{trained}"
            files = write_rtl(design, case)
            for planned in design.units:
                if planned.strategy != strategy or not isinstance(planned.unit.head, LinearMap):
                    continue  # wiring, or a node that is the same as in the unrolled design
                area = area_of(files, planned.module, case / "reports")
                error = planned.estimate.lut / max(1, area.lut) - 1
                errors[f"{planned.strategy}{', trained' if trained else ''}"].append(error)
                luts = f"{planned.estimate.lut:.0f} estimated, {area.lut} measured, {error:+.0%}"
                print(f"{planned.module} of {case.name}, {planned.strategy}: {luts}", flush=True)
    results = []
    for strategy, found in ((name, np.array(each)) for name, each in errors.items() if each):
        limit = 0.25 if strategy.startswith("folded") else 0.1
        spread = f"{found.min():+.0%} to {found.max():+.0%}, median {np.median(found):+.0%}, {len(found)} nodes"
        results.append(
            Result(
                f"estimated LUT of {strategy} nodes: median error", abs(float(np.median(found))), limit, "", spread
            )
        )
        results.append(
            Result(f"estimated LUT of {strategy} nodes: largest error", float(np.abs(found).max()), limit, "")
        )
    return [*results, Result("slowest estimate of a network", slowest, 0.5, "s")]


def _speeds(folder: Path) -> list[Result]:
    results = []
    tiny = program_of("jsc-tiny")
    rows = np.random.default_rng(0).integers(-128, 128, (500_000, 16))
    seconds = min(_seconds(lambda: tiny.run(rows)) for _ in range(3))
    results.append(Result("emulator, jsc-tiny", seconds / len(rows) * 1e6, 1, "s per million vectors"))
    if SIMULATORS["verilator"].is_available():
        design = make_design(program_of("jsc-toy"), DesignOptions())
        files = [*write_rtl(design, folder), *write_testbench(design, folder)]
        built = Simulation(design, files, "verilator", SIMULATORS["verilator"], folder / "simulation")
        found = [built.compare(rows[:1000]) for _ in range(3)]
        assert all(each.mismatch is None for each in found)
        results.append(Result("1,000 vectors of jsc-toy in Verilator", min(e.seconds for e in found), 0.1, "s"))
    return results


def _seconds(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
