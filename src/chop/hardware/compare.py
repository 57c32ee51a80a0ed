"""Compares PyTorch, the integer program and the simulated circuit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chop.config import SimulationOptions
from chop.hardware.emit import REPORTS, write_rtl, write_testbench
from chop.hardware.prepare import HardwareModel
from chop.hardware.rtl.design import Design
from chop.hardware.simulate.cosimulate import Simulation, SimulationResult, Traffic, traffic_patterns
from chop.hardware.simulate.simulators import find_simulator

FloatRows = NDArray[np.floating[Any]]


def check_program(prepared: HardwareModel, rows: FloatRows) -> None:
    """Raise an error if PyTorch and the integer program differ for one of the rows."""
    different = prepared.num_differences(rows)
    if different:
        raise ValueError(f"PyTorch and the integer program differ for {different} of {len(rows)} vectors")


def simulate_circuit(
    design: Design, rows: FloatRows, options: SimulationOptions, folder: Path
) -> Iterator[tuple[Traffic, SimulationResult]]:
    """Write a circuit into `folder`, simulate it and yield the result for each kind of traffic.

    A difference from the integer program is an error that names the first wrong vector, output and node.
    """
    name, simulator = find_simulator(options.simulator)
    files = [path for write in (write_rtl, write_testbench) for path in write(design, folder, options.axi_stream)]
    simulation = Simulation(design, files, name, simulator, folder / REPORTS / name)
    vectors = design.program.quantize(rows)
    for traffic in traffic_patterns(len(vectors), design):
        result = simulation.compare(vectors, traffic)
        yield traffic, result
        if result.mismatch is not None:
            raise ValueError(f"{result}: {result.mismatch}")
