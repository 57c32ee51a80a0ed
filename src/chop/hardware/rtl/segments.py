"""Segments: the parts of a circuit between two streams, with their text, their handshake and their area."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from chop.hardware.program.instructions import Align, Rearrange
from chop.hardware.rtl.circuit import port_width
from chop.hardware.rtl.estimate import AreaEstimate, estimate_fifo, estimate_line_buffer, estimate_skid
from chop.hardware.rtl.line_buffer import LineBuffer
from chop.hardware.rtl.planned import PlannedUnit
from chop.hardware.rtl.schedule import (
    CollectTimer,
    FifoTimer,
    FoldedTimer,
    LineBufferTimer,
    PipelineTimer,
    SendTimer,
    Timer,
)
from chop.hardware.rtl.streams import Stream
from chop.hardware.rtl.units import CircuitUnit
from chop.hardware.rtl.unrolled import element_bits
from chop.hardware.templates import read

Wires = Mapping[str, str]
"""By stream: the first part of the names of its wires, such as `s2` for s2_valid, s2_ready and s2_data."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Segment(ABC):
    """A part of a circuit that reads streams and writes one."""

    sources: tuple[str, ...]
    """The streams that it reads."""
    result: str
    """The stream that it writes, and unless it only moves words, the instruction that computes it."""
    units: tuple[PlannedUnit, ...] = ()
    """The units that it computes."""

    @abstractmethod
    def timer(self) -> Timer:
        """Return its handshake at the start."""

    @abstractmethod
    def lines(self, wires: Wires, streams: Mapping[str, Stream]) -> list[str]:
        """Return its text in the top module."""

    def overhead(self, streams: Mapping[str, Stream]) -> AreaEstimate:
        """Return its estimated area, without that of its units."""
        return AreaEstimate()

    def library(self) -> dict[str, str]:
        """Return the files that it needs besides those of its units."""
        return {}

    def instance(self, module: str, name: str, wires: Wires) -> list[str]:
        """Return an instance of a module with one stream on either side."""
        (source,) = self.sources
        ends = [
            f".in_{end}({wires[source]}_{end}), .out_{end}({wires[self.result]}_{end})"
            for end in ("valid", "ready", "data")
        ]
        return [f"{module} {name} (.clk(clk), .rst(rst), {', '.join(ends)});"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldedSegment(Segment):
    """One folded unit."""

    def timer(self) -> Timer:
        return FoldedTimer(self.units[0].latency)

    def lines(self, wires: Wires, streams: Mapping[str, Stream]) -> list[str]:
        (planned,) = self.units
        return self.instance(planned.module, f"u_{planned.unit.name}", wires)


@dataclass(frozen=True, eq=False, kw_only=True)
class LineBufferSegment(Segment):
    """The windows of a convolution or a pooling layer."""

    buffer: LineBuffer
    module: str

    def timer(self) -> Timer:
        return LineBufferTimer(self.buffer)

    def lines(self, wires: Wires, streams: Mapping[str, Stream]) -> list[str]:
        return self.instance(self.module, f"u_{self.result}", wires)

    def overhead(self, streams: Mapping[str, Stream]) -> AreaEstimate:
        return estimate_line_buffer(self.buffer)

    def library(self) -> dict[str, str]:
        return {f"{self.module}.sv": self.buffer.module(self.module)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Conversion(Segment):
    """Pixels of an image into one word, or the other way round."""

    to_pixels: bool
    beats: tuple[int, int]
    """Words per vector before and after."""

    def timer(self) -> Timer:
        return SendTimer(self._pixels) if self.to_pixels else CollectTimer(self._pixels)

    @property
    def _pixels(self) -> int:
        return max(self.beats)

    @property
    def _module(self) -> str:
        return "vector_to_pixels" if self.to_pixels else "pixels_to_vector"

    def lines(self, wires: Wires, streams: Mapping[str, Stream]) -> list[str]:
        pixels = streams[self.result if self.to_pixels else self.sources[0]]
        given = {"WIDTH": pixels.lanes.width, "CHANNELS": pixels.lanes.numel, "PIXELS": self._pixels}
        parameters = ", ".join(f".{key}({value})" for key, value in given.items())
        return self.instance(f"{self._module} #({parameters})", f"u_{self.result}", wires)

    def overhead(self, streams: Mapping[str, Stream]) -> AreaEstimate:
        bits = max(streams[self.sources[0]].bits, streams[self.result].bits)
        return AreaEstimate(bits + 4 if self.to_pixels else 4, bits + self._pixels + 1)

    def library(self) -> dict[str, str]:
        return _fixed(self._module)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fifo(Segment):
    """A queue for one of several readers of a stream; `depth` is None until it is known."""

    depth: int | None = None

    def timer(self) -> FifoTimer:
        return FifoTimer(self.depth)

    def lines(self, wires: Wires, streams: Mapping[str, Stream]) -> list[str]:
        module = f"stream_fifo #(.WIDTH({streams[self.result].bits}), .DEPTH({self.depth}))"
        return self.instance(module, f"u_{self.result}", wires)

    def overhead(self, streams: Mapping[str, Stream]) -> AreaEstimate:
        assert self.depth is not None, "a circuit is complete before its area is estimated"
        return estimate_fifo(streams[self.result].bits, self.depth)

    def library(self) -> dict[str, str]:
        return _fixed("stream_fifo")


@dataclass(frozen=True, eq=False, kw_only=True)
class Pipeline(Segment):
    """Unrolled units that advance together, and a skid buffer."""

    inside: Mapping[str, str]
    """By instruction that a unit reads from outside: the stream that it comes from."""

    def timer(self) -> Timer:
        return PipelineTimer(self.latency)

    @property
    def latency(self) -> int:
        """Cycles from an accepted word to its result."""
        return self.times()[self.units[-1].lane_unit.result]

    def times(self) -> dict[str, int]:
        """Return the cycle in which each result of the segment is ready."""
        found = dict.fromkeys(self.inside, 0)
        for each in self.units:
            found[each.lane_unit.result] = start_of(each, found) + each.latency
        return found

    def overhead(self, streams: Mapping[str, Stream]) -> AreaEstimate:
        return estimate_skid(streams[self.result].lanes, self.latency)

    def library(self) -> dict[str, str]:
        files = _fixed("skid_buffer") if self.latency else {}
        times = self.times()
        waits = any(
            times[name] < start_of(each, times) for each in self.units for name in each.lane_unit.head.reads
        )
        return files | _fixed("delay") if waits else files

    def lines(self, wires: Wires, streams: Mapping[str, Stream]) -> list[str]:
        result = wires[self.result]
        number = result.removeprefix("s")
        times, lines = self.times(), []
        data = {name: f"{wires[stream]}_data" for name, stream in self.inside.items()}
        bits = {name: streams[stream].bits for name, stream in self.inside.items()}
        for planned in self.units:
            lines += _instance(planned, times, data, bits, f"enable{number}")
        taken = data[self.units[-1].lane_unit.result]
        given = " & ".join(f"{wires[name]}_valid" for name in self.sources)
        if self.latency == 0:
            return [
                *lines,
                f"assign {result}_valid = {given};",
                *self._ready(wires, f"{result}_ready"),
                f"assign {result}_data = {taken};",
            ]
        return [f"wire enable{number};", *lines, *self._handshake(number, given, wires, streams, taken)]

    def _ready(self, wires: Wires, ready: str) -> list[str]:
        """Return what makes each source wait for the others."""
        lines = []
        for name in self.sources:
            others = [f"{wires[other]}_valid" for other in self.sources if other != name]
            lines.append(f"assign {wires[name]}_ready = {' & '.join([ready, *others])};")
        return lines

    def _handshake(
        self, number: str, given: str, wires: Wires, streams: Mapping[str, Stream], taken: str
    ) -> list[str]:
        latency, enable, valid = self.latency, f"enable{number}", f"valid{number}"
        moved = f"{{{valid}[{latency - 2}:0], {given}}}" if latency > 1 else given
        result = wires[self.result]
        return [
            f"logic [{latency - 1}:0] {valid};",
            *self._ready(wires, enable),
            "always_ff @(posedge clk) begin",
            f"    if (rst) {valid} <= '0;",
            f"    else if ({enable}) {valid} <= {moved};",
            "end",
            f"skid_buffer #(.WIDTH({streams[self.result].bits})) skid{number} (",
            f"    .clk(clk), .rst(rst), .in_valid({valid}[{latency - 1}]), .in_ready({enable}), .in_data({taken}),",
            f"    .out_valid({result}_valid), .out_ready({result}_ready), .out_data({result}_data)",
            ");",
        ]


def _fixed(module: str) -> dict[str, str]:
    """Return the file of a module that is the same in all circuits."""
    return {f"{module}.sv": read(f"{module}.sv")}


def start_of(planned: PlannedUnit, times: Mapping[str, int]) -> int:
    """Return the cycle in which a unit of a pipeline takes its inputs."""
    return max(times[name] for name in planned.lane_unit.head.reads)


def _instance(
    planned: PlannedUnit, times: Mapping[str, int], data: dict[str, str], bits: dict[str, int], enable: str
) -> list[str]:
    """Return the instance of a unit, with delays for inputs that are ready earlier than others."""
    unit = planned.lane_unit
    start = start_of(planned, times)
    lines, given = [], []
    for name in unit.head.reads:
        early = start - times[name]
        wire = data[name]
        if early:
            delayed = f"{name}_for_{unit.name}"
            lines.append(f"wire [{bits[name] - 1}:0] {delayed};")
            lines.append(
                f"delay #(.WIDTH({bits[name]}), .CYCLES({early})) u_{delayed} "
                f"(.clk(clk), .enable({enable}), .in_data({wire}), .out_data({delayed}));"
            )
            wire = delayed
        given.append(wire)
    out = f"d_{unit.name}"
    data[unit.result], bits[unit.result] = out, port_width(unit.out)
    width = bits[unit.result]
    if unit.is_wiring:
        text = "{" + ", ".join(reversed(_moved(unit))) + "}"
        for i in reversed(range(len(given))):
            text = text.replace(f"in{i}_data[", f"{given[i]}[")
        # Elements that need no bits, or fewer than their neighbours, do not use all wires.
        unused = f"wire unused_{unit.name} = &{{1'b0, {', '.join(given)}}};"
        return [*lines, f"wire [{width - 1}:0] {out} = {text};", unused]
    ports = ", ".join(f".in{i}_data({wire})" for i, wire in enumerate(given))
    return [
        *lines,
        f"wire [{width - 1}:0] {out};",
        f"{planned.module} u_{unit.name} (.clk(clk), .enable({enable}), {ports}, .out_data({out}));",
    ]


def _moved(unit: CircuitUnit) -> list[str]:
    """Return the elements of a result that consists of wires."""
    head, width = unit.head, unit.out.width
    if isinstance(head, Rearrange):
        return [element_bits(unit.sources, at, width) for at in head.index.tolist()]
    assert isinstance(head, Align), "no other instruction is wiring"
    return [
        f"{{{element_bits(unit.sources, at, width - shift)}, {shift}'d0}}"
        if shift
        else element_bits(unit.sources, at, width)
        for at, shift in enumerate(head.shift.tolist())
    ]
