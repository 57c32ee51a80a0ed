"""Folded units: a few multipliers that are used again for all inputs and outputs; weights are in a ROM file."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chop.hardware.program.instructions import Block, LinearMap, Requantize
from chop.hardware.program.signal import IntArray, width_of
from chop.hardware.rtl.arithmetic import Rounding, requantized
from chop.hardware.rtl.circuit import Circuit, Wire, low_bits
from chop.hardware.rtl.module import HEADER, ModuleText, port_width
from chop.hardware.rtl.units import CircuitUnit, shares_limits
from chop.hardware.rtl.unrolled import merge_roundings, roundings

PIPELINE_CYCLES = 5
"""Cycles from the last address to the result: ROM, product, sum, accumulator, result."""


@dataclass(frozen=True)
class Folding:
    """How a matrix is cut: `p_in` inputs and `p_out` outputs at a time."""

    p_in: int = 4
    p_out: int = 4

    def __post_init__(self) -> None:
        if self.p_in < 1 or self.p_out < 1:
            raise ValueError(f"'p_in' and 'p_out' must be at least 1, got {self.p_in} and {self.p_out}")


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
        return max(1, width_of(int(self.weights.min()), int(self.weights.max()), signed=True))

    @property
    def bias_width(self) -> int:
        return max(1, width_of(int(self.biases.min()), int(self.biases.max()), signed=True))

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

    def rom_words(self, values: IntArray, width: int) -> str:
        """Return lines for $readmemh: one word per line, the first value in the lowest bits."""
        lines = []
        for word in values.reshape(len(values), -1).tolist():
            number = sum((value % (1 << width)) << (width * i) for i, value in enumerate(word))
            lines.append(f"{number:0{-(-width * len(word) // 4)}x}")
        return "\n".join(lines) + "\n"


def fold(unit: CircuitUnit, folding: Folding) -> FoldedUnit:
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
    p_in, p_out = min(folding.p_in, inputs), min(folding.p_out, outputs)
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
        f"{name}_weights.mem": folded.rom_words(weights.reshape(folded.num_steps, -1), weight_width),
        f"{name}_biases.mem": folded.rom_words(folded.biases, bias_width),
    }
    step_bits = max(1, (folded.num_steps - 1).bit_length())
    column_bits = max(1, (groups_in - 1).bit_length())
    row_bits = max(1, (groups_out - 1).bit_length())
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
    text = f"""module {name} #(
    parameter WEIGHTS = "{name}_weights.mem",
    parameter BIASES = "{name}_biases.mem"
) (
    input  logic clk,
    input  logic rst,
    input  logic in_valid,
    output logic in_ready,
    input  logic [{port_width(source) - 1}:0] in_data,
    output logic out_valid,
    input  logic out_ready,
    output logic [{port_width(out) - 1}:0] out_data
);
    // {groups_in} x {groups_out} steps of {p_in} inputs and {p_out} outputs
    logic [{p_in * p_out * weight_width - 1}:0] weight_rom [{folded.num_steps}];
    logic [{p_out * bias_width - 1}:0] bias_rom [{groups_out}];
    initial $readmemh(WEIGHTS, weight_rom);
    initial $readmemh(BIASES, bias_rom);

    logic busy, issuing;
    logic [{step_bits - 1}:0] step;
    logic [{column_bits - 1}:0] column;
    logic [{row_bits - 1}:0] row;
    logic [{in_bits - 1}:0] x;
    wire last_column = column == {column_bits}'d{groups_in - 1};
    wire last_row = row == {row_bits}'d{groups_out - 1};
    assign in_ready = ~busy;

    logic first_q, last_q, done_q, valid_q;
    logic [{p_in * lane - 1}:0] x_q;
    logic [{p_in * p_out * weight_width - 1}:0] weights_q;
    logic [{p_out * bias_width - 1}:0] biases_q, biases_p, biases_s;
    logic first_p, last_p, done_p, valid_p;
    logic first_s, last_s, done_s, valid_s;
    logic last_a, done_a;
    logic signed [{product - 1}:0] products [{p_in * p_out}];
    logic signed [{acc - 1}:0] sums [{p_out}];
    logic signed [{acc - 1}:0] totals [{p_out}];
    logic [{p_out * out.width - 1}:0] results;
    logic [{out_bits - 1}:0] y;
    assign out_data = y[{port_width(out) - 1}:0];

    always_ff @(posedge clk) begin
        if (rst) begin
            busy <= 1'b0;
            issuing <= 1'b0;
            out_valid <= 1'b0;
            {{valid_q, valid_p, valid_s}} <= '0;
            {{last_q, last_p, last_s, last_a}} <= '0;
            {{done_q, done_p, done_s, done_a}} <= '0;
        end else begin
            if (in_valid & in_ready) begin
                busy <= 1'b1;
                issuing <= 1'b1;
            end else if (last_column & last_row) issuing <= 1'b0;
            if (out_valid & out_ready) begin
                busy <= 1'b0;
                out_valid <= 1'b0;
            end
            if (done_a) out_valid <= 1'b1;
            valid_q <= issuing;
            last_q <= issuing & last_column;
            done_q <= issuing & last_column & last_row;
            {{valid_p, last_p, done_p}} <= {{valid_q, last_q, done_q}};
            {{valid_s, last_s, done_s}} <= {{valid_p, last_p, done_p}};
            {{last_a, done_a}} <= {{last_s, done_s}};
        end
        if (~issuing) begin
            step <= '0;
            column <= '0;
            row <= '0;
        end else begin
            step <= step + 1'b1;
            column <= last_column ? '0 : column + 1'b1;
            if (last_column) row <= row + 1'b1;
        end
        if (in_valid & in_ready) x <= {loaded};
        else if (issuing) x <= {rotated};
        first_q <= column == '0;
        {{first_p, first_s}} <= {{first_q, first_p}};
        x_q <= x[{p_in * lane - 1}:0];
        weights_q <= weight_rom[step];
        biases_q <= bias_rom[row];
        {{biases_p, biases_s}} <= {{biases_q, biases_p}};
        if (last_a) y <= {collected};
    end

    for (genvar k = 0; k < {p_out}; k++) begin : lanes
        for (genvar l = 0; l < {p_in}; l++) begin : products_of
            wire signed [{operand - 1}:0] operand = {sign};
            wire signed [{weight_width - 1}:0] weight =
                weights_q[(k * {p_in} + l) * {weight_width} +: {weight_width}];
            always_ff @(posedge clk) products[k * {p_in} + l] <= operand * weight;
        end
        logic signed [{acc - 1}:0] sum;
        always_comb begin
            sum = '0;
            for (int l = 0; l < {p_in}; l++) sum = sum + {acc}'(products[k * {p_in} + l]);
        end
        wire signed [{bias_width - 1}:0] bias = biases_s[k * {bias_width} +: {bias_width}];
        wire signed [{acc - 1}:0] total = totals[k];
        always_ff @(posedge clk) begin
            sums[k] <= sum;
            if (valid_s) totals[k] <= (first_s ? {acc}'(bias) : totals[k]) + sums[k];
        end
        {chr(10).join("        " + line for line in circuit.lines).strip()}
        assign results[k * {out.width} +: {out.width}] = {result};
        wire unused = &{{{ignored}}};
    end
endmodule
"""
    return ModuleText(name, HEADER + text, folded.latency), files
