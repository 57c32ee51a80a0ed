"""`ch simulate`."""

from __future__ import annotations

from pathlib import Path

from chop.actions.emit import print_design
from chop.config import SimulateConfig
from chop.hardware.emit import REPORTS, write_rtl, write_testbench
from chop.hardware.rtl.design import make_design
from chop.hardware.simulate.cosimulate import Simulation, traffic_patterns
from chop.hardware.simulate.simulators import find_simulator
from chop.implementing import design_options, prepare_run
from chop.runs.run import open_run


def simulate(config: SimulateConfig) -> Path | None:
    """Compare the circuit of a run's model with PyTorch, vector by vector, and return the folder of the circuit."""
    run = open_run(config.run, config.project_dir)
    name, simulator = ("", None) if config.emulate else find_simulator(config.simulator)
    prepared = prepare_run(run, config)
    rows = run.test_batches(config.samples).features.numpy()
    different = prepared.num_differences(rows)
    print(f"{len(rows) - different} of {len(rows)} vectors equal in PyTorch and the integer program")
    if different:
        raise ValueError(f"PyTorch and the integer program differ for {different} vectors")
    if simulator is None:
        return None
    design = make_design(prepared.program, design_options(config))
    folder = run.folder.hardware
    files = [each for write in (write_rtl, write_testbench) for each in write(design, folder, config.axi_stream)]
    print_design(design)
    simulation = Simulation(design, files, name, simulator, folder / REPORTS / name)
    vectors = prepared.program.quantize(rows)
    for traffic in traffic_patterns(len(vectors), design):
        result = simulation.compare(vectors, traffic)
        print(f"{result}, {traffic}")
        if result.mismatch is not None:
            raise ValueError(f"{result}: {result.mismatch}")
    return folder
