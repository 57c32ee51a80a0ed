"""A design: the program cut into units, a strategy for each, and the files of the circuit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chop.config import DesignOptions
from chop.hardware.program import Program, Signal
from chop.hardware.program.program import without_constants
from chop.hardware.rtl.connect import Network, connect
from chop.hardware.rtl.estimate import AreaEstimate
from chop.hardware.rtl.planned import (
    PlannedUnit,
    check_name,
    check_names,
    given_strategy,
    is_streamable,
    plan_unit,
    starts_stream,
)
from chop.hardware.rtl.segments import Pipeline, start_of
from chop.hardware.rtl.streams import Stream
from chop.hardware.rtl.top import top_module
from chop.hardware.rtl.units import CircuitUnit, make_units


@dataclass(frozen=True)
class UnitTiming:
    """When a unit computes, in cycles after the first word of a vector, and how often it can."""

    start: int
    latency: int
    """Cycles from its first word to the last word of its result."""
    interval: int
    """Cycles per vector."""


@dataclass(frozen=True, eq=False)
class Design:
    """The files of a circuit by name, and what is known about it."""

    options: DesignOptions
    program: Program
    units: tuple[PlannedUnit, ...]
    network: Network
    files: Mapping[str, str]

    @property
    def latency(self) -> int:
        """Cycles from the first word of an input to the last word of its result, if nothing stalls."""
        return self.network.schedule.latency

    @property
    def interval(self) -> int:
        """Cycles between two inputs, if nothing stalls."""
        return self.network.schedule.interval

    def timings(self) -> dict[str, UnitTiming]:
        """Return when each unit computes, by the unit's name."""
        found: dict[str, UnitTiming] = {}
        transfers, streams = self.network.schedule.transfers, self.network.streams
        for segment in self.network.segments:
            times = segment.times() if isinstance(segment, Pipeline) else {}
            for planned in segment.units:
                name = planned.unit.name
                begin = transfers[segment.sources[0]][0]
                if planned.is_by_pixel:
                    begin = found[name].start if name in found else begin
                    beats = streams[segment.result].beats
                    end = transfers[segment.result][beats - 1]
                    steps = 0 if planned.buffer is None else planned.buffer.num_steps
                    found[name] = UnitTiming(begin, end - begin, max(steps, beats * planned.interval))
                else:
                    begin += start_of(planned, times) if times else 0
                    found[name] = UnitTiming(begin, planned.latency, planned.interval)
        return found

    @property
    def estimate(self) -> AreaEstimate:
        """The estimated area of the complete circuit."""
        total = AreaEstimate()
        for planned in self.units:
            total += planned.estimate
        for segment in self.network.segments:
            total += segment.overhead(self.network.streams)
        return total

    @property
    def input(self) -> Signal:
        return self.program.input.out

    @property
    def output(self) -> Signal:
        return self.program.output.out

    @property
    def input_stream(self) -> Stream:
        """The words of an input."""
        return self.network.streams[self.network.source]

    @property
    def output_stream(self) -> Stream:
        """The words of a result."""
        return self.network.streams[self.network.result]


def make_design(program: Program, options: DesignOptions) -> Design:
    """Return the circuit of a program."""
    check_names(make_units(program), options)
    varying = without_constants(program)
    units = make_units(varying)
    input_by_pixel, by_pixel = _by_pixel(varying, units, options)
    planned: list[PlannedUnit] = []
    files: dict[str, str] = {}
    for unit in units:
        made, new_files = plan_unit(unit, unit.name in by_pixel, options)
        planned.append(made)
        files |= new_files
    network = connect(varying, planned, input_by_pixel)
    for segment in network.segments:
        files |= segment.library()
    check_name(options.name, files)
    files[f"{options.name}.sv"] = top_module(options.name, network)
    return Design(options, program, tuple(planned), network, dict(sorted(files.items())))


def _by_pixel(program: Program, units: Sequence[CircuitUnit], options: DesignOptions) -> tuple[bool, set[str]]:
    """Return whether the input comes pixel by pixel, and the names of the units that compute so.

    That starts with a convolution that is too large to be unrolled; what comes before and after it joins in, as
    long as it can.
    """
    starts = any(starts_stream(unit, options) for unit in units)
    source = program.input
    by_pixel: set[str] = set()
    results = {source.name} if starts and len(source.out.shape) > 1 else set()
    for unit in units:
        joins = set(unit.head.reads) <= results and given_strategy(unit, options) in (None, "stream_conv")
        if starts_stream(unit, options) or (joins and is_streamable(unit)):
            by_pixel.add(unit.name)
            results.add(unit.result)
    return any(source.name in unit.head.reads for unit in units if unit.name in by_pixel), by_pixel
