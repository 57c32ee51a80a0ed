"""Compare PyTorch, the integer program and the simulated circuit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from chop.hardware.arguments import DesignArgs
from chop.hardware.emit import write_rtl, write_testbench
from chop.hardware.prepare import prepare
from chop.hardware.rtl.design import make_design
from chop.hardware.simulate.cosimulate import Simulation, SimulationResult, traffic_patterns
from chop.hardware.simulate.simulators import find_simulator
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import tensors_in
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class CosimulateArgs(DesignArgs):
    """Arguments of `cosimulate`."""

    input_generator: Iterable[Mapping[str, Any]] = ()
    """Batches by argument name; their rows are the vectors."""
    num_vectors: int = 1000
    """The largest number of vectors."""
    simulator: Literal["emulator", "auto", "verilator", "icarus"] = "emulator"
    """What computes the integers: the program in numpy alone, or a simulator of the circuit."""
    axi_stream: bool = False
    """Whether to simulate the top module with AXI4-Stream ports."""
    save_dir: Path | None = None
    """A folder to keep the circuit and the simulation in; None: a temporary one."""

    def __post_init__(self) -> None:
        if self.num_vectors < 1:
            raise ValueError(f"'num_vectors' must be at least 1, got {self.num_vectors}")


@register_pass("cosimulate", kind="analysis")
def cosimulate_analysis_pass(graph: MaseGraph, args: CosimulateArgs) -> PassResult:
    """Check on data that fake quantisation, the integer program and the simulated circuit agree on every bit.

    `info` has the number of vectors and of those that are equal, and the measured latency and interval. A
    difference is an error that names the first wrong vector, output and node.
    """
    rows = _rows(args.input_generator, args.num_vectors)
    prepared = prepare(graph, args.strict)
    different = prepared.num_differences(rows)
    if different:
        raise ValueError(f"PyTorch and the integer program differ for {different} of {len(rows)} vectors")
    beyond = list(prepared.program.beyond_float32)
    info: dict[str, Any] = {"num_vectors": len(rows), "num_equal": len(rows), "beyond_float32": beyond}
    if args.simulator == "emulator":
        return graph, info
    name, simulator = find_simulator(args.simulator)
    design = make_design(prepared.program, args.design_options())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.save_dir is None else args.save_dir
        files = [each for write in (write_rtl, write_testbench) for each in write(design, folder, args.axi_stream)]
        simulation = Simulation(design, files, name, simulator, folder / "simulation")
        vectors = prepared.program.quantize(rows)
        results = [simulation.compare(vectors, traffic) for traffic in traffic_patterns(len(vectors), design)]
    check_equal(results)
    return graph, {**info, "simulator": name, "latency": results[0].latency, "interval": results[0].interval}


def check_equal(results: Iterable[SimulationResult]) -> None:
    """Raise an error for the first comparison with a difference."""
    for each in results:
        if each.mismatch is not None:
            raise ValueError(f"{each}: {each.mismatch}")


def _rows(batches: Iterable[Mapping[str, Any]], limit: int) -> NDArray[np.floating[Any]]:
    """Return up to `limit` rows of the first tensor of each batch."""
    parts, missing = [], limit
    for batch in batches:
        parts.append(tensors_in(list(batch.values()))[0][:missing])
        missing -= len(parts[-1])
        if missing <= 0:
            break
    if not parts:
        raise ValueError("cosimulate_analysis_pass: input_generator yields no batches")
    return torch.cat(parts).numpy()
