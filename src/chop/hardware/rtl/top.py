"""The top module: pipelines of unrolled units and folded units, connected by ready/valid streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chop.hardware.program import Program, Signal
from chop.hardware.program.instructions import Rearrange
from chop.hardware.rtl.module import port_width
from chop.hardware.rtl.unrolled import element_bits

if TYPE_CHECKING:
    from chop.hardware.rtl.design import PlannedUnit


@dataclass(frozen=True, eq=False)
class Segment:
    """Units between two streams: one folded unit, or unrolled units that advance together."""

    source: str
    result: str
    units: tuple[PlannedUnit, ...]

    @property
    def is_folded(self) -> bool:
        return self.units[0].folded is not None

    @property
    def latency(self) -> int:
        """Cycles from an accepted input to the result."""
        return self.units[0].latency if self.is_folded else self.times()[self.result]

    def times(self) -> dict[str, int]:
        """Return the cycle in which each result of the segment is ready."""
        found = {self.source: 0}
        for each in self.units:
            found[each.unit.result] = self.start(each, found) + each.latency
        return found

    @staticmethod
    def start(planned: PlannedUnit, times: dict[str, int]) -> int:
        """Return the cycle in which a unit takes its inputs."""
        return max(times[name] for name in planned.unit.head.reads)


def top_module(name: str, program: Program, segments: list[Segment]) -> tuple[str, bool]:
    """Return the text of the top module, and whether it uses the module `delay`."""
    body: list[str] = []
    for number, segment in enumerate(segments):
        body += _folded(number, segment) if segment.is_folded else _pipeline(number, segment, program)
    signals = [program.input.out, *(program[segment.result].out for segment in segments)]
    streams = []
    for number, signal in enumerate(signals):
        streams += [
            f"wire s{number}_valid;",
            f"wire s{number}_ready;",
            f"wire [{port_width(signal) - 1}:0] s{number}_data;",
        ]
    last = len(segments)
    ends = [
        "assign s0_valid = in_valid;",
        "assign in_ready = s0_ready;",
        "assign s0_data = in_data;",
        f"assign out_valid = s{last}_valid;",
        f"assign s{last}_ready = out_ready;",
        f"assign out_data = s{last}_data;",
    ]
    lines = [
        f"// in_data: {_described(signals[0])}",
        f"// out_data: {_described(signals[-1])}",
        f"module {name} (",
        "    input  logic clk,",
        "    input  logic rst,",
        "    input  logic in_valid,",
        "    output logic in_ready,",
        f"    input  logic [{port_width(signals[0]) - 1}:0] in_data,",
        "    output logic out_valid,",
        "    input  logic out_ready,",
        f"    output logic [{port_width(signals[-1]) - 1}:0] out_data",
        ");",
        *(f"    {line}" for line in (*streams, *ends, *body)),
        "endmodule",
        "",
    ]
    return "\n".join(lines), any(line.startswith("delay ") for line in body)


def _described(signal: Signal) -> str:
    fraction = sorted(set(signal.frac.ravel().tolist()))
    sign = "signed" if signal.signed else "unsigned"
    shown = str(fraction[0]) if len(fraction) == 1 else f"{fraction[0]} to {fraction[-1]}"
    return f"{signal.numel} elements of {signal.width} bits, {sign}, {shown} fraction bits, element 0 lowest"


def _folded(number: int, segment: Segment) -> list[str]:
    """Return the instance of a folded unit."""
    (planned,) = segment.units
    ends = [f".in_{end}(s{number}_{end}), .out_{end}(s{number + 1}_{end})" for end in ("valid", "ready", "data")]
    return [f"{planned.module} u_{planned.unit.name} (.clk(clk), .rst(rst), {', '.join(ends)});"]


def _pipeline(number: int, segment: Segment, program: Program) -> list[str]:
    """Return a pipeline of unrolled units with one clock enable, which ends in a skid buffer."""
    latency = segment.latency
    enable, valid = f"enable{number}", f"valid{number}"
    signal = program[segment.result].out
    times, lines = segment.times(), []
    data = {segment.source: f"s{number}_data"}
    for planned in segment.units:
        lines += _instance(planned, times, data, enable, program)
    result = data[segment.result]
    if latency == 0:
        return [
            *lines,
            f"assign s{number + 1}_valid = s{number}_valid;",
            f"assign s{number}_ready = s{number + 1}_ready;",
            f"assign s{number + 1}_data = {result};",
        ]
    moved = f"{{{valid}[{latency - 2}:0], s{number}_valid}}" if latency > 1 else f"s{number}_valid"
    return [
        f"wire {enable};",
        f"logic [{latency - 1}:0] {valid};",
        f"assign s{number}_ready = {enable};",
        "always_ff @(posedge clk) begin",
        f"    if (rst) {valid} <= '0;",
        f"    else if ({enable}) {valid} <= {moved};",
        "end",
        *lines,
        f"skid_buffer #(.WIDTH({port_width(signal)})) skid{number} (",
        f"    .clk(clk), .rst(rst), .in_valid({valid}[{latency - 1}]), .in_ready({enable}), .in_data({result}),",
        f"    .out_valid(s{number + 1}_valid), .out_ready(s{number + 1}_ready), .out_data(s{number + 1}_data)",
        ");",
    ]


def _instance(
    planned: PlannedUnit, times: dict[str, int], data: dict[str, str], enable: str, program: Program
) -> list[str]:
    """Return the instance of a unit, with delays for inputs that are ready earlier than others."""
    unit = planned.unit
    start = Segment.start(planned, times)
    lines, given = [], []
    for name in unit.head.reads:
        early = start - times[name]
        wire = data[name]
        if early:
            bits = port_width(program[name].out)
            delayed = f"{name}_for_{unit.name}"
            lines.append(f"wire [{bits - 1}:0] {delayed};")
            lines.append(
                f"delay #(.WIDTH({bits}), .CYCLES({early})) u_{delayed} "
                f"(.clk(clk), .enable({enable}), .in_data({wire}), .out_data({delayed}));"
            )
            wire = delayed
        given.append(wire)
    bits = port_width(unit.out)
    out = f"d_{unit.name}"
    data[unit.result] = out
    if unit.is_wiring:
        assert isinstance(unit.head, Rearrange), "only these are wiring"
        parts = [element_bits(unit.sources, at, unit.out) for at in reversed(unit.head.index.tolist())]
        text = "{" + ", ".join(parts) + "}"
        for i in reversed(range(len(given))):
            text = text.replace(f"in{i}_data[", f"{given[i]}[")
        return [*lines, f"wire [{bits - 1}:0] {out} = {text};"]
    ports = ", ".join(f".in{i}_data({wire})" for i, wire in enumerate(given))
    return [
        *lines,
        f"wire [{bits - 1}:0] {out};",
        f"{planned.module} u_{unit.name} (.clk(clk), .enable({enable}), {ports}, .out_data({out}));",
    ]
