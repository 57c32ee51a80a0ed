"""Simulate a design on vectors and compare every result with the integer program."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chop.config import SimulationOptions
from chop.files import write_text
from chop.hardware.emit import REPORTS, write_rtl, write_testbench
from chop.hardware.program.instructions import Rows
from chop.hardware.rtl.circuit import hex_words
from chop.hardware.rtl.design import Design
from chop.hardware.rtl.streams import Stream
from chop.hardware.simulators import Simulator, find_simulator
from chop.hardware.testbench import (
    MAX_VECTORS,
    PROBES_FILE,
    RESULTS_FILE,
    VECTORS_FILE,
    WRONG_LAST,
    from_hex,
)


@dataclass(frozen=True)
class Traffic:
    """How the test bench sends and takes words."""

    bubbles: int = 0
    """Percentage of cycles without an input."""
    stalls: int = 0
    """Percentage of cycles in which no result is taken."""
    reset: int = -1
    """The cycle of a reset; -1: none."""
    seed: int = 1

    def __str__(self) -> str:
        if self == STEADY:
            return "one vector per cycle"
        reset = "" if self.reset < 0 else f", reset in cycle {self.reset}"
        return f"{self.bubbles} % bubbles, {self.stalls} % stalls{reset}"


STEADY = Traffic()
"""One input per cycle, if the design takes it: latency and interval are measured with it."""


@dataclass(frozen=True)
class Divergence:
    """The first integer of a simulation that differs from the integer program."""

    node: str
    instruction: str
    element: int
    expected: int
    found: int | str
    """What was simulated: an integer, or why there is none."""

    def __str__(self) -> str:
        step = "" if self.instruction == self.node else f" ({self.instruction})"
        return (
            f"the first node that differs is '{self.node}'{step}, in element {self.element}: "
            f"simulated {self.found}, expected {self.expected}"
        )


@dataclass(frozen=True)
class Mismatch:
    """The first wrong result, and where the simulation first differs from the integer program."""

    vector: int
    output: int
    expected: int
    found: int
    divergence: Divergence | None
    """Where the integers of this vector first differ; None if they do not when it is simulated alone."""

    @property
    def node(self) -> str | None:
        """The first node whose integers differ for this vector."""
        return None if self.divergence is None else self.divergence.node

    def __str__(self) -> str:
        where = "every node is right for this vector alone, so that the handshake is wrong"
        return (
            f"vector {self.vector}, output {self.output}: simulated {self.found}, expected {self.expected}; "
            f"{self.divergence or where}"
        )


@dataclass(frozen=True)
class SimulationResult:
    """The outcome of one simulation."""

    simulator: str
    num_vectors: int
    num_equal: int
    latency: int | None
    """Measured cycles from input to result; None if traffic was irregular."""
    interval: int | None
    seconds: float
    mismatch: Mismatch | None = None

    def __str__(self) -> str:
        return f"{self.num_equal} of {self.num_vectors} vectors equal in {self.simulator}"


class Simulation:
    """A design with its test bench, built by a simulator in a folder."""

    def __init__(
        self, design: Design, files: Sequence[Path], name: str, simulator: Simulator, folder: Path
    ) -> None:
        self.design, self.name, self.simulator = design, name, simulator
        self.build_folder, self.run_folder = folder.absolute() / "build", folder.absolute() / "run"
        for each in (self.build_folder, self.run_folder):
            each.mkdir(parents=True, exist_ok=True)
        for path in files:
            if path.suffix == ".mem":
                write_text(self.run_folder / path.name, path.read_text())
        simulator.build([path.absolute() for path in files if path.suffix == ".sv"], self.build_folder)

    def compare(self, vectors: Rows, traffic: Traffic = STEADY) -> SimulationResult:
        """Simulate integers [rows, inputs] and compare the results with those of the program."""
        if not 0 < len(vectors) <= MAX_VECTORS:
            raise ValueError(f"a simulation takes 1 to {MAX_VECTORS} vectors, got {len(vectors)}")
        expected = self.design.program.run(vectors)
        start = time.perf_counter()
        words, entered, left = self._simulate(vectors, traffic)
        seconds = time.perf_counter() - start
        found = self._decode(words, expected)
        equal = (found == expected[: len(found)]).all(axis=1)
        num_equal = int(equal.sum())
        mismatch = None if num_equal == len(vectors) else self._find(vectors, expected, found)
        steady = left if traffic == STEADY else []
        latency = steady[0] - entered[0] if steady else None
        interval = steady[-1] - steady[-2] if len(steady) > 1 else None
        return SimulationResult(self.name, len(vectors), num_equal, latency, interval, seconds, mismatch)

    def _simulate(self, vectors: Rows, traffic: Traffic) -> tuple[list[str], list[int], list[int]]:
        self._write(vectors)
        arguments = {"count": len(vectors), **vars(traffic)}
        self.simulator.run(self.build_folder, self.run_folder, arguments)
        lines = [line.split() for line in (self.run_folder / RESULTS_FILE).read_text().splitlines()]
        wrong = [line[1] for line in lines if line[0] == WRONG_LAST]
        if wrong:
            raise ValueError(f"TLAST, or the bits that fill TDATA, are wrong in word {wrong[0]} of the results")
        # A reset repeats the words of a result that had begun.
        found = {int(line[0]): line[1:] for line in lines if len(line) == 4}
        beats = self.design.output_stream.beats
        complete = [found[number] for number in range(len(found) - len(found) % beats)]
        first, last = complete[::beats], complete[beats - 1 :: beats]
        return [line[0] for line in complete], [int(line[1]) for line in first], [int(line[2]) for line in last]

    def _write(self, vectors: Rows) -> None:
        """Write the words of vectors."""
        stream = self.design.input_stream
        words = vectors[:, stream.order.ravel()].reshape(-1, stream.lanes.numel)
        write_text(self.run_folder / VECTORS_FILE, hex_words(words, stream.lanes.width))

    def _decode(self, words: list[str], expected: Rows) -> Rows:
        """Return the integers of the results; unknown bits become a value that differs from every result."""
        stream = self.design.output_stream
        rows = np.zeros((len(words) // stream.beats, expected.shape[1]), dtype=np.int64)
        for number, word in enumerate(words):
            vector, order = number // stream.beats, stream.order[number % stream.beats]
            try:
                rows[vector, order] = from_hex([word], stream.lanes)[0]
            except ValueError:
                rows[vector, order] = expected[vector, order] + (1 << 40)
        return rows

    def _find(self, vectors: Rows, expected: Rows, found: Rows) -> Mismatch:
        """Return the first wrong result, and simulate its vector alone to see where it goes wrong."""
        different = np.argwhere(found != expected[: len(found)])
        vector, output = (int(n) for n in different[0]) if len(different) else (len(found), 0)
        value = int(found[vector, output]) if len(different) else 0
        divergence = self.first_difference(vectors[vector : vector + 1])
        return Mismatch(vector, output, int(expected[vector, output]), value, divergence)

    def first_difference(self, vector: Rows) -> Divergence | None:
        """Return the first integer in the simulation that differs from the program."""
        self._write(vector)
        self.simulator.run(self.build_folder, self.run_folder, {"count": 1, "probe": True})
        words: dict[str, list[str]] = {}
        for line in (self.run_folder / PROBES_FILE).read_text().splitlines():
            name, _, word = line.partition(" ")
            words.setdefault(name, []).append(word)
        trace = self.design.program.trace(vector)
        for instruction in self.design.program:
            if instruction.name in words:
                stream = self.design.network.streams.get(instruction.name, Stream.whole(instruction.out))
                expected = trace[instruction.name].ravel()[stream.order]
                found = _first_difference(words[instruction.name], expected, stream)
                if found is not None:
                    return Divergence(instruction.node, instruction.name, *found)
        return None


def _first_difference(words: list[str], expected: Rows, stream: Stream) -> tuple[int, int, int | str] | None:
    """Return the first element that differs in words [beats, lanes], and its expected and found integers."""
    if len(words) != len(expected):
        return int(stream.order.flat[0]), int(expected.flat[0]), f"{len(words)} words instead of {len(expected)}"
    for word, right, order in zip(words, expected, stream.order, strict=True):
        try:
            found = from_hex([word], stream.lanes)[0]
        except ValueError:
            return int(order[0]), int(right[0]), "unknown bits"
        for lane in np.flatnonzero(found != right)[:1].tolist():
            return int(order[lane]), int(right[lane]), int(found[lane])
    return None


def traffic_patterns(num_vectors: int, design: Design) -> tuple[Traffic, ...]:
    """Return how vectors are sent: steadily; with bubbles and stalls; and with a reset in the middle as well."""
    middle = num_vectors * design.interval // 2 + design.latency
    return STEADY, Traffic(30, 30), Traffic(20, 40, middle, seed=2)


def simulate_circuit(
    design: Design, rows: NDArray[np.floating], options: SimulationOptions, folder: Path
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
