"""The test bench: sends vectors with bubbles, takes results with stalls, resets once in the middle."""

from __future__ import annotations

import numpy as np

from chop.hardware.program import Signal
from chop.hardware.program.instructions import Rows
from chop.hardware.rtl.design import Design
from chop.hardware.rtl.segments import FoldedSegment, Pipeline
from chop.hardware.rtl.streams import Stream
from chop.hardware.rtl.top import stream_wires
from chop.hardware.templates import fill

VECTORS_FILE, RESULTS_FILE, PROBES_FILE = "vectors.hex", "results.txt", "probes.txt"
WRONG_LAST = "last"
"""Starts a line of the results with the number of a word whose TLAST is wrong."""
TOP = "testbench"
MAX_VECTORS = 1 << 16


def from_hex(words: list[str], signal: Signal) -> Rows:
    """Return the integers [rows, elements] of hexadecimal words; raises ValueError for unknown bits (x)."""
    width, n = signal.width, signal.numel
    rows = np.zeros((len(words), n), dtype=np.int64)
    mask, top = (1 << width) - 1, (1 << width) >> 1
    for i, text in enumerate(words):
        word = int(text, 16)
        for k in range(n):
            value = (word >> (k * width)) & mask
            rows[i, k] = value - (1 << width) if signal.signed and value & top else value
    return rows


def probes(design: Design) -> tuple[dict[str, str], dict[str, str]]:
    """Return by instruction the wires inside the top module that hold its result.

    First those that keep a complete result, then the streams on which a result passes pixel by pixel.
    """
    kept: dict[str, str] = {}
    passing: dict[str, str] = {}
    wires = stream_wires(design.network)
    for segment in design.network.segments:
        if isinstance(segment, Pipeline) and not segment.units[0].is_by_pixel:
            kept |= {planned.unit.result: f"d_{planned.unit.name}" for planned in segment.units}
        elif isinstance(segment, Pipeline | FoldedSegment):
            by_pixel = design.network.streams[segment.result].beats > 1
            (passing if by_pixel else kept)[segment.result] = wires[segment.result]
    return {name: wire if wire.startswith("d_") else f"{wire}_data" for name, wire in kept.items()}, passing


def _axi_instance(name: str, source: Stream, result: Stream) -> str:
    """Return the circuit behind its AXI4-Stream ports; the bits that fill a byte of TDATA are 1, then must be 0."""
    in_pad, high = -source.bits % 8, result.bits + -result.bits % 8 - 1
    return fill(
        "testbench_axi_stream.sv",
        NAME=name,
        TDATA_HIGH=high,
        OUT_HIGH=result.bits - 1,
        ZEROS=f"m_axis_tdata[{high}:{result.bits}] == '0" if high >= result.bits else "1'b1",
        SENT=f"{{{{{in_pad}{{1'b1}}}}, in_data}}" if in_pad else "in_data",
        IN_WORDS=source.beats,
    )


def testbench_files(design: Design, axi_stream: bool) -> dict[str, str]:
    """Return the files of the test bench by name, without vectors, for the circuit or its AXI4-Stream top level."""
    name, source, result = design.options.name, design.input_stream, design.output_stream
    instance, core = fill("testbench_core.sv", NAME=name, OUT_WORDS=result.beats), "dut"
    if axi_stream:
        instance, core = _axi_instance(name, source, result), "dut.core"
    kept, passing = probes(design)
    shown = "\n".join(f'        $fdisplay(file, "{key} %h", {core}.{wire});' for key, wire in kept.items())
    logged = "\n".join(
        f'        if ({core}.{wire}_valid && {core}.{wire}_ready) $fdisplay(file, "{key} %h", {core}.{wire}_data);'
        for key, wire in passing.items()
    )
    settle = design.latency + design.interval + 8
    filled = fill(
        "testbench.sv",
        IN_WORDS=source.beats,
        OUT_WORDS=result.beats,
        TOP=TOP,
        IN_HIGH=source.bits - 1,
        LAST_WORD=MAX_VECTORS * source.beats - 1,
        LAST_VECTOR=MAX_VECTORS - 1,
        OUT_HIGH=result.bits - 1,
        INSTANCE=instance.rstrip("\n"),
        WRONG_LAST=WRONG_LAST,
        PATIENCE=4 * settle + 1000,
        LOGGED=logged,
        PROBES_FILE=PROBES_FILE,
        SETTLE=settle,
        SHOWN=shown,
        VECTORS_FILE=VECTORS_FILE,
        RESULTS_FILE=RESULTS_FILE,
    )
    return {f"{TOP}.sv": filled}
