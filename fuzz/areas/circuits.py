"""Random networks as circuits: PyTorch, integer program and simulation agree, and every tool reads the files.

What hardware does not support is refused in a sentence.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from chop.config import DesignOptions
from chop.hardware.cosimulate import Simulation, traffic_patterns
from chop.hardware.emit import write_rtl, write_testbench
from chop.hardware.prepare import HardwareModel
from chop.hardware.prepare import prepare as prepare_graph
from chop.hardware.program import Program
from chop.hardware.program.instructions import Rows
from chop.hardware.rtl import planned
from chop.hardware.rtl.design import Design, make_design
from chop.hardware.simulators import SIMULATORS
from chop.ir import MaseGraph
from fuzz.random_networks import Case, draw_network, quantized_graph
from fuzz.readers import check_readable, slang_errors

TIME_LIMIT = 600.0  # on a busy machine, Verilator compiles for minutes
ROWS, VECTORS = 40, 24
MAX_MESSAGE = 500  # characters
STRATEGIES = {"linear": ("", "unrolled", "folded")} | dict.fromkeys(
    ("conv1d", "conv2d"), ("", "unrolled", "stream_conv")
)


def draw(random: Random) -> Case:
    """Draw a network, and how its circuit is made."""
    case = draw_network(random)
    return case | {
        "strategy": random.choice(("auto", "unrolled", "folded", "stream_conv")),
        "named": [_draw_strategy(random, kind) for kind, *_ in case["steps"]],
        "max_unrolled": random.choice((4096, 4096, 24, 8)),
        "folding": (random.randint(1, 5), random.randint(1, 5)),
        "pipeline": {name: random.randint(1, 4) for name in random.choice(([], ["stages"], ["latency_cutoff"]))},
        "solver": random.choices(["alkaid", "csd"], [0.7, 0.3])[0],
        "axi_stream": random.random() < 0.4,
        "spread": random.choice((0.05, 1.0, 1.0, 4.0)),
        "seed": random.randrange(2**31),
    }


def _draw_strategy(random: Random, kind: str) -> str:
    """Draw a strategy of a step, or none; rarely one that it cannot have."""
    return random.choice(("folded", "stream_conv") if random.random() < 0.02 else STRATEGIES.get(kind, ("",)))


def check(case: Case, folder: Path) -> None:
    """Check that the circuit of a case computes what PyTorch does, or is refused in a sentence."""
    outcome(case, folder)


def outcome(case: Case, folder: Path) -> str:
    """Check a case, and return the sentence that refuses it, or an empty string."""
    graph = quantized_graph(case)
    try:
        ready = prepare_graph(graph)
        with patch.object(planned, "MAX_UNROLLED", case["max_unrolled"]):
            design = make_design(ready.program, _options(case, ready))
    except ValueError as error:
        message = str(error)
        assert "\n" not in message, f"not a sentence: {message!r}"
        assert 0 < len(message) <= MAX_MESSAGE, f"not a sentence: {message!r}"
        assert any(word in message for word in ("node '", "input '")), f"names no node: {message}"
        return message
    rows = _rows(case)
    assert ready.num_differences(rows) == 0, "PyTorch and the integer program differ"
    _check_as_given(graph, ready, rows)
    _check_circuit(design, case, folder)
    return ""


def _rows(case: Case) -> NDArray[np.float32]:
    """Return random inputs, and extreme ones."""
    random = torch.Generator().manual_seed(case["seed"])
    rows = torch.randn(ROWS, *case["shape"], generator=random) * case["spread"]
    for number, value in enumerate((0.0, 1e9, -1e9, 1e-9, -1e-9, math.inf, -math.inf)):
        rows[number] = value
    rows[7:15] *= 1000
    found: NDArray[np.float32] = rows.numpy()
    return found


def _options(case: Case, ready: HardwareModel) -> DesignOptions:
    known = {meta.node.name for meta in ready.graph.annotated_metas()}
    named = {f"layers_{number}": strategy for number, strategy in enumerate(case["named"]) if strategy}
    strategy = {name: strategy for name, strategy in named.items() if name in known}
    if case["strategy"] != "auto":
        strategy["default"] = case["strategy"]
    p_in, p_out = case["folding"]
    return DesignOptions(strategy=strategy, p_in=p_in, p_out=p_out, solver=case["solver"], **case["pipeline"])


def _check_as_given(graph: MaseGraph, ready: HardwareModel, rows: NDArray[np.float32]) -> None:
    """Compare the program with the graph that was given, unless what it computes was changed and reported."""
    resolved = ready.resolved
    changed = ready.renamed or resolved.completed or resolved.reciprocals or resolved.scales or ready.removed
    if not changed and not any(
        isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) for layer in graph.model.modules()
    ):
        given = replace(ready, graph=graph)
        assert given.num_differences(rows) == 0, "the graph that was given and the integer program differ"


def _check_circuit(design: Design, case: Case, folder: Path) -> None:
    """Let every tool read the circuit, and simulate it with all kinds of traffic."""
    axi_stream = case["axi_stream"]
    rtl, bench = (write(design, folder, axi_stream) for write in (write_rtl, write_testbench))
    check_readable(rtl, "network_axis" if axi_stream else "network", folder)
    assert not slang_errors([*rtl, *bench])
    simulators = [name for name in ("icarus", "verilator") if SIMULATORS[name].is_available()]
    for name in simulators[:1]:  # the one that is ready sooner
        built = Simulation(design, [*rtl, *bench], name, SIMULATORS[name], folder / name)
        vectors = _vectors(design.program)
        results = [built.compare(vectors, traffic) for traffic in traffic_patterns(VECTORS, design)]
        for result in results:
            assert result.mismatch is None, f"{result}: {result.mismatch}"
        timing = results[0].latency, results[0].interval
        assert timing == (design.latency, design.interval), f"latency and interval are {timing}"


def _vectors(program: Program) -> Rows:
    """Return random integers, and the limits of the input port."""
    port = program.input.out
    low, high = port.low.ravel(), port.high.ravel()
    vectors = np.random.default_rng(0).integers(low, high + 1, (VECTORS, port.numel))
    vectors[:3] = low, high, np.where(np.arange(port.numel) % 2, low, high)
    vectors[3:9] = np.where(vectors[3:9] % 2, low, high)
    return vectors
