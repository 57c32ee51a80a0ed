"""Estimated area of units, for a Xilinx 7 series FPGA as Yosys maps it: one look-up table per bit of an adder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chop.hardware.program import Signal
from chop.hardware.program.signal import IntArray, counter_bits
from chop.hardware.rtl.circuit import port_width
from chop.hardware.rtl.folded import FoldedUnit
from chop.hardware.rtl.line_buffer import LineBuffer

TABLE_WORDS = 64
"""The words of a ROM with one bit that a look-up table with six inputs holds."""
MIN_DSP_PRODUCT = 9
"""The bits of a product from which on Yosys uses a DSP block."""
CONTROL_LUTS = 8
"""The handshake of a folded unit, and the comparisons of its counters."""


@dataclass(frozen=True)
class AreaEstimate:
    """An area: look-up tables, flip-flops, and DSP blocks."""

    lut: float = 0
    ff: float = 0
    dsp: float = 0

    def __add__(self, other: AreaEstimate) -> AreaEstimate:
        return AreaEstimate(self.lut + other.lut, self.ff + other.ff, self.dsp + other.dsp)


def estimate_skid(signal: Signal, latency: int) -> AreaEstimate:
    """Return the area of the handshake of a pipeline: its skid buffer and its valid bits."""
    bits = port_width(signal)
    return AreaEstimate(bits + 4, bits + 2 + latency)


def estimate_memory(words: int, bits: int) -> int:
    """Return the look-up tables of a small memory that is written in one place and read in another."""
    if words <= 32:
        return -(-bits // 6) * 4  # RAM32M: 6 bits in 4 tables
    return -(-bits // 3) * 4 * -(-words // 64)  # RAM64M: 3 bits in 4 tables


def estimate_line_buffer(buffer: LineBuffer) -> AreaEstimate:
    """Return the area of a line buffer: the memory of earlier rows, the registers of a window, and counters."""
    pixel, window = buffer.pixel_bits, buffer.window
    memory = estimate_memory(buffer.steps[1], buffer.line_bits)
    pads = buffer.num_steps > window.size[0] * window.size[1]
    masks = pixel * (pads + (window.kernel[0] - 1 if window.padding[0] else 0))
    registers = window.kernel[0] * buffer.spans[1] * pixel
    return AreaEstimate(memory + masks + 20, registers + 15)


def estimate_fifo(bits: int, depth: int) -> AreaEstimate:
    """Return the area of a queue."""
    counters = 3 * depth.bit_length()
    return AreaEstimate(estimate_memory(depth, bits) + counters + 6, counters)


def estimate_folded(folded: FoldedUnit) -> AreaEstimate:
    """Return the area of a folded unit, part by part."""
    groups_out, groups_in, p_out, p_in = folded.weights.shape
    acc, product = folded.accumulator_width, folded.product_width
    source = folded.unit.sources[0]
    circuit, _ = folded.requantization()
    x_bits = groups_in * p_in * source.width
    rotation = x_bits if groups_in > 1 else 0  # load or rotate
    weights, weight_bits = _rom(folded.weights.reshape(folded.num_steps, -1), folded.weight_width)
    biases, bias_bits = _rom(folded.biases, folded.bias_width)
    counters = sum(counter_bits(n) for n in (folded.num_steps, groups_in, groups_out))
    # One table per bit of an accumulator both chooses between bias and total and adds to it.
    luts = rotation + weights + biases + bias_bits + p_out * (acc + circuit.luts) + counters + CONTROL_LUTS
    registers = x_bits + p_in * source.width + bias_bits + p_out * acc
    registers += groups_out * p_out * folded.unit.out.width + counters + 14
    if product >= MIN_DSP_PRODUCT:  # its registers, and the sums of the products, are part of the DSP blocks
        return AreaEstimate(luts, registers, p_in * p_out)
    # Each bit of the smaller factor adds a row as wide as the other; the sums and registers are logic as well.
    small, large = sorted((folded.operand_width, folded.weight_width))
    luts += p_in * p_out * ((small - 1) * large + 2) + p_out * (p_in - 1) * (product + 1)
    registers += p_in * p_out * product + p_out * acc + weight_bits
    return AreaEstimate(luts, registers, 0)


def _rom(values: IntArray, width: int) -> tuple[int, int]:
    """Return the look-up tables of a ROM [words, values], and the number of its different output bits.

    A table holds 64 words of one output bit; equal tables are shared. Up to four are combined by multiplexers that
    cost nothing.
    """
    bits = (values[:, :, None] >> np.arange(width)) & 1
    columns = {tuple(column) for column in bits.reshape(len(values), -1).T.tolist()}
    varying = {column for column in columns if 0 < sum(column) < len(column)}
    parts = {column[at : at + TABLE_WORDS] for column in varying for at in range(0, len(values), TABLE_WORDS)}
    tables = [part for part in parts if 0 < sum(part) < len(part)]
    muxes = -(-len(values) // (4 * TABLE_WORDS)) - 1
    return len(tables) + muxes * len(varying), len(varying)
