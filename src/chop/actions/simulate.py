"""`ch simulate`."""

from __future__ import annotations

from pathlib import Path

from chop.config import SimulateConfig
from chop.folder_lock import only_writer
from chop.hardware.cosimulate import simulate_circuit
from chop.hardware.describe import design_table
from chop.hardware.prepare import prepare_run
from chop.hardware.rtl.design import make_design
from chop.hardware.simulators import find_simulator
from chop.runs.run import open_run


def simulate(config: SimulateConfig) -> Path | None:
    """Compare the circuit of a run's model with PyTorch, vector by vector, and return the folder of the circuit."""
    run = open_run(config.run, config.project_dir, config.accelerator)
    if config.simulator != "emulator":
        find_simulator(config.simulator)  # before the work begins
    prepared = prepare_run(run, config)
    rows = run.test_batches(config.samples).features.numpy()
    prepared.check(rows)
    print(f"{len(rows)} of {len(rows)} vectors equal in PyTorch and the integer program")
    if config.simulator == "emulator":
        return None
    design = make_design(prepared.program, config)
    with only_writer(run.folder.path):
        print(design_table(design))
        for traffic, result in simulate_circuit(design, rows, config, run.folder.hardware):
            print(f"{result}, {traffic}")
    return run.folder.hardware
