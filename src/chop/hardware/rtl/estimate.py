"""Estimated area of units, for a Xilinx 7 series FPGA as Yosys maps it: one look-up table per bit of an adder."""

from __future__ import annotations

from dataclasses import dataclass

from chop.hardware.program import Signal
from chop.hardware.rtl.circuit import Wire
from chop.hardware.rtl.folded import FoldedUnit
from chop.hardware.rtl.line_buffer import LineBuffer
from chop.hardware.rtl.module import port_width


@dataclass(frozen=True)
class AreaEstimate:
    """An area: look-up tables, flip-flops, and DSP blocks."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0

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
    """Return the area of a folded unit."""
    groups_out, groups_in, p_out, p_in = folded.weights.shape
    source, out = folded.unit.sources[0], folded.unit.out
    low, high = folded.sum_range
    acc = Wire("", low, high, 0, 0).width
    operand = source.width + (not source.signed)
    product = operand + folded.weight_width
    x_bits = groups_in * p_in * source.width
    rom_bits = p_in * p_out * folded.weight_width
    rom = rom_bits * max(1, -(-folded.num_steps // 64)) * min(1.0, max(folded.num_steps, 8) / 32)
    sums = p_out * (product + 1)  # the other sums, and the registers before them, are part of the DSP blocks
    accumulators = p_out * acc
    requantised = p_out * (out.width + 4) * len(folded.roundings)
    luts = x_bits + rom + sums + accumulators + requantised + 30
    registers = x_bits + p_out * (folded.bias_width + acc)
    registers += groups_out * p_out * out.width + 25
    return AreaEstimate(round(luts), registers, p_in * p_out)
