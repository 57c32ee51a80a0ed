"""Folded units: a few multipliers that are used again for all inputs and outputs; weights are in a ROM file."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chop.config import DesignOptions
from chop.hardware.program.instructions import Block, LinearMap, Requantize
from chop.hardware.program.signal import IntArray, counter_bits, signed_width
from chop.hardware.rtl.arithmetic import Rounding, requantized
from chop.hardware.rtl.circuit import Circuit, ModuleText, Wire, hex_words, low_bits, port_width
from chop.hardware.rtl.units import CircuitUnit, shares_limits
from chop.hardware.rtl.unrolled import merge_roundings, roundings
from chop.hardware.templates import fill

PIPELINE_CYCLES = 5
"""Cycles from the last address to the result: ROM, product, sum, accumulator, result."""


@dataclass(frozen=True, eq=False)
class FoldedUnit:
    """The constants of a folded unit, padded with zeros to full groups."""

    unit: CircuitUnit
    weights: IntArray
    """[groups of outputs, groups of inputs, p_out, p_in]"""
    biases: IntArray
    """[groups of outputs, p_out], with the offset of the rounding"""
    roundings: tuple[Rounding, ...]

    @property
    def num_steps(self) -> int:
        """Cycles in which products are computed."""
        return int(self.weights.shape[0] * self.weights.shape[1])

    @property
    def latency(self) -> int:
        """Cycles from an accepted input to its result."""
        return self.num_steps + PIPELINE_CYCLES

    @property
    def interval(self) -> int:
        """Cycles between two inputs."""
        return self.latency + 1

    @property
    def weight_width(self) -> int:
        return signed_width(int(self.weights.min()), int(self.weights.max()))

    @property
    def bias_width(self) -> int:
        return signed_width(int(self.biases.min()), int(self.biases.max()))

    @property
    def sum_range(self) -> tuple[int, int]:
        """The smallest and largest accumulator, with the offset of the rounding, for any order of additions."""
        source = self.unit.sources[0]
        largest = max(abs(int(source.low.min())), abs(int(source.high.max())))
        rows = np.abs(self.weights).sum(axis=(1, 3)) * largest + np.abs(self.biases)
        bound = int(rows.max())
        return -bound, bound

    @property
    def accumulator_width(self) -> int:
        return self._total.width

    @property
    def operand_width(self) -> int:
        """The bits of an input as a signed number."""
        source = self.unit.sources[0]
        return source.width + (not source.signed)

    @property
    def product_width(self) -> int:
        return self.operand_width + self.weight_width

    @property
    def _total(self) -> Wire:
        return Wire("total", *self.sum_range, 0, 0)

    def requantization(self) -> tuple[Circuit, Wire]:
        """Return what follows the accumulator of one output, and its result."""
        circuit, wire = Circuit(cutoff=10**6), self._total
        for number, rounding in enumerate(self.roundings):
            wire = requantized(circuit, wire, rounding, offset_is_added=number == 0)
        return circuit, wire


def fold(unit: CircuitUnit, options: DesignOptions) -> FoldedUnit:
    """Return the constants of a folded unit; an error names a node that cannot be folded."""
    block = single_block(unit)
    if block is None:
        raise ValueError(f"node '{unit.node}': only linear layers can be folded; use the strategy 'unrolled'")
    outputs, inputs = block.matrix.shape
    chains = [roundings(unit.posts, i) for i in range(outputs)]
    requantizations = [post for post in unit.posts if isinstance(post, Requantize)]
    if not all(
        shares_limits(post, np.arange(outputs)[None], same_shift=number > 0)
        for number, post in enumerate(requantizations)
    ):
        raise ValueError(
            f"node '{unit.node}': its outputs have different formats, so that it cannot be folded; "
            "use the strategy 'unrolled'"
        )
    # Outputs with fewer fraction bits, such as those without weights, are aligned with the others.
    shifts = np.array([chain[0].shift if chain else 0 for chain in chains])
    aligned = shifts.max() - shifts
    merged = merge_roundings(chains)
    if merged:
        merged[0] = replace(merged[0], shift=int(shifts.max()))
    p_in, p_out = min(options.p_in, inputs), min(options.p_out, outputs)
    groups_in, groups_out = -(-inputs // p_in), -(-outputs // p_out)
    matrix = np.zeros((groups_out * p_out, groups_in * p_in), dtype=np.int64)
    matrix[:outputs, :inputs] = block.matrix << aligned[:, None]
    biases = np.zeros(groups_out * p_out, dtype=np.int64)
    biases[:outputs] = (block.bias << aligned) + (merged[0].offset if merged else 0)
    weights = matrix.reshape(groups_out, p_out, groups_in, p_in).transpose(0, 2, 1, 3)
    return FoldedUnit(unit, weights, biases.reshape(groups_out, p_out), tuple(merged))


def single_block(unit: CircuitUnit) -> Block | None:
    """Return the only block of a unit that multiplies its input by one dense matrix, once."""
    head = unit.head
    if not isinstance(head, LinearMap) or len(head.blocks) != 1 or len(unit.sources) != 1:
        return None
    block = head.blocks[0]
    in_order = len(block.reads) == 1 and block.reads[0].tolist() == list(range(unit.sources[0].numel))
    return block if in_order and block.writes[0].tolist() == list(range(unit.out.numel)) else None


def folded_module(name: str, folded: FoldedUnit) -> tuple[ModuleText, dict[str, str]]:
    """Return the module of a folded unit, and its ROM files by name."""
    unit, weights = folded.unit, folded.weights
    groups_out, groups_in, p_out, p_in = weights.shape
    source, out = unit.sources[0], unit.out
    lane = source.width
    acc, operand, product = folded.accumulator_width, folded.operand_width, folded.product_width
    weight_width, bias_width = folded.weight_width, folded.bias_width
    circuit, wire = folded.requantization()
    files = {
        f"{name}_weights.mem": hex_words(weights.reshape(folded.num_steps, -1), weight_width),
        f"{name}_biases.mem": hex_words(folded.biases, bias_width),
    }
    column_bits, row_bits = counter_bits(groups_in), counter_bits(groups_out)
    if wire.width > out.width:  # the port has no sign bit
        circuit.ignored.append(wire.name)
    result = low_bits(wire, out.width)
    in_bits, out_bits = groups_in * p_in * lane, groups_out * p_out * out.width
    padding = in_bits - source.numel * lane
    loaded = f"{{{padding}'d0, in_data}}" if padding else "in_data"
    rotated = f"{{x[{p_in * lane - 1}:0], x[{in_bits - 1}:{p_in * lane}]}}" if groups_in > 1 else "x"
    collected = f"{{results, y[{out_bits - 1}:{p_out * out.width}]}}" if groups_out > 1 else "results"
    sign = f"x_q[l * {lane} +: {lane}]" if source.signed else f"{{1'b0, x_q[l * {lane} +: {lane}]}}"
    ignored = ", ".join(["1'b0", "biases_q", "y", *dict.fromkeys(circuit.ignored)])
    requantization = "\n".join("        " + line for line in circuit.lines).strip()
    text = fill(
        "folded.sv",
        NAME=name,
        WEIGHTS_FILE=f'"{name}_weights.mem"',
        BIASES_FILE=f'"{name}_biases.mem"',
        IN_HIGH=port_width(source) - 1,
        OUT_HIGH=port_width(out) - 1,
        GROUPS_IN=groups_in,
        GROUPS_OUT=groups_out,
        P_IN=p_in,
        P_OUT=p_out,
        WEIGHTS_HIGH=p_in * p_out * weight_width - 1,
        NUM_STEPS=folded.num_steps,
        BIASES_HIGH=p_out * bias_width - 1,
        STEP_HIGH=counter_bits(folded.num_steps) - 1,
        COLUMN_HIGH=column_bits - 1,
        ROW_HIGH=row_bits - 1,
        X_HIGH=in_bits - 1,
        COLUMN_BITS=column_bits,
        LAST_COLUMN=groups_in - 1,
        ROW_BITS=row_bits,
        LAST_ROW=groups_out - 1,
        X_Q_HIGH=p_in * lane - 1,
        PRODUCT_HIGH=product - 1,
        NUM_PRODUCTS=p_in * p_out,
        ACC_HIGH=acc - 1,
        RESULTS_HIGH=p_out * out.width - 1,
        Y_HIGH=out_bits - 1,
        LOADED=loaded,
        ROTATED=rotated,
        COLLECTED=collected,
        OPERAND_HIGH=operand - 1,
        OPERAND=sign,
        WEIGHT_HIGH=weight_width - 1,
        WEIGHT_WIDTH=weight_width,
        ACC=acc,
        BIAS_HIGH=bias_width - 1,
        BIAS_WIDTH=bias_width,
        REQUANTIZATION=requantization,
        OUT_WIDTH=out.width,
        RESULT=result,
        IGNORED=ignored,
    )
    return ModuleText(name, text, folded.latency), files
