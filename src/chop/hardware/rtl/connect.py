"""From units to segments: which streams connect them, and where words are converted, repeated or kept waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from chop.hardware.program import Program
from chop.hardware.rtl.planned import PlannedUnit
from chop.hardware.rtl.schedule import FifoTimer, Schedule, TimedSegment, schedule
from chop.hardware.rtl.segments import Conversion, Fifo, FoldedSegment, LineBufferSegment, Pipeline, Segment
from chop.hardware.rtl.streams import Stream

MIN_FIFO_DEPTH = 2


@dataclass(frozen=True, eq=False)
class Network:
    """Segments in the order of data, their streams, and when words move."""

    segments: tuple[Segment, ...]
    streams: dict[str, Stream]
    source: str
    result: str
    schedule: Schedule


def connect(program: Program, planned: Sequence[PlannedUnit], input_by_pixel: bool) -> Network:
    """Return the segments of a circuit."""
    connector = _Connector(program, input_by_pixel)
    for group in _groups(program, planned):
        connector.add(group)
    source, result = program.input.name, program.result
    segments = _with_queues(connector.segments, connector.streams)
    beats = connector.streams[result].beats
    if any(isinstance(each, Fifo) for each in segments):
        steps = _steps(segments)
        schedule(steps, source, result, beats)
        for at, (segment, step) in enumerate(zip(segments, steps, strict=True)):
            if isinstance(segment, Fifo) and isinstance(step.timer, FifoTimer):
                # As deep as it needs to be for steady traffic not to wait.
                segments[at] = replace(segment, depth=max(MIN_FIFO_DEPTH, step.timer.most + 1))
    timing = schedule(_steps(segments), source, result, beats)
    return Network(tuple(segments), connector.streams, source, result, timing)


def _steps(segments: Sequence[Segment]) -> list[TimedSegment]:
    return [TimedSegment(each.sources, each.result, each.timer()) for each in segments]


def _groups(program: Program, planned: Sequence[PlannedUnit]) -> list[list[PlannedUnit]]:
    """Cut the units into those that advance together; only the last result of a group is read by others."""
    groups: list[list[PlannedUnit]] = []
    for each in planned:
        alone = each.folded is not None or each.is_by_pixel
        previous_alone = not groups or groups[-1][0].folded is not None or groups[-1][0].is_by_pixel
        if alone or previous_alone:
            groups.append([each])
        else:
            groups[-1].append(each)
    while (cut := _first_cut(groups, program)) is not None:
        number, at = cut
        groups[number : number + 1] = [groups[number][:at], groups[number][at:]]
    return groups


def _first_cut(groups: list[list[PlannedUnit]], program: Program) -> tuple[int, int] | None:
    """Return a group, and where to cut it, if another group reads a result in its middle."""
    group_of = {each.unit.result: number for number, group in enumerate(groups) for each in group}
    read_outside = {program.result} | {
        name
        for number, group in enumerate(groups)
        for each in group
        for name in each.unit.head.reads
        if group_of.get(name, number) != number
    }
    for number, group in enumerate(groups):
        for at, each in enumerate(group[:-1], start=1):
            if each.unit.result in read_outside:
                return number, at
    return None


class _Connector:
    """Segments and streams while they are made."""

    def __init__(self, program: Program, input_by_pixel: bool) -> None:
        source = program.input
        make = Stream.of_pixels if input_by_pixel else Stream.whole
        self.program = program
        self.streams = {source.name: make(source.out)}
        self.segments: list[Segment] = []

    def add(self, group: list[PlannedUnit]) -> None:
        """Add the segments of units that advance together."""
        first, last = group[0], group[-1]
        inside = {each.unit.result for each in group}
        outside = dict.fromkeys(name for each in group for name in each.unit.head.reads if name not in inside)
        reads = {name: self._in_words_of(first, name) for name in outside}
        signal = last.unit.out
        self.streams[last.unit.result] = Stream.of_pixels(signal) if first.is_by_pixel else Stream.whole(signal)
        units, result = tuple(group), last.unit.result
        if first.folded is not None:
            self.segments.append(FoldedSegment(sources=tuple(reads.values()), result=result, units=units))
        else:
            sources = tuple(dict.fromkeys(reads.values()))
            self.segments.append(Pipeline(sources=sources, result=result, units=units, inside=reads))

    def _in_words_of(self, planned: PlannedUnit, name: str) -> str:
        """Return the stream of a result in the words that a unit reads: complete, pixels, or windows."""
        stream = self.streams[name]
        signal = self.program[name].out
        wanted = Stream.of_pixels(signal) if planned.is_by_pixel else Stream.whole(signal)
        if wanted.beats != stream.beats:
            name = self._converted(name, stream, wanted)
        if planned.buffer is None:
            return name
        windows = f"{planned.unit.name}_windows"
        (lanes,) = planned.lane_unit.sources
        self.streams[windows] = Stream(lanes, Stream.of_pixels(planned.unit.head.out).beats)
        module = f"{planned.module}_windows"
        self.segments.append(
            LineBufferSegment(
                sources=(name,), result=windows, units=(planned,), buffer=planned.buffer, module=module
            )
        )
        return windows

    def _converted(self, name: str, stream: Stream, wanted: Stream) -> str:
        to_pixels = wanted.beats > stream.beats
        converted = f"{name}_{'pixels' if to_pixels else 'vector'}"
        if converted not in self.streams:
            self.streams[converted] = wanted
            beats = stream.beats, wanted.beats
            self.segments.append(Conversion(sources=(name,), result=converted, to_pixels=to_pixels, beats=beats))
        return converted


def _with_queues(segments: Sequence[Segment], streams: dict[str, Stream]) -> list[Segment]:
    """Return the segments with a queue for each reader of a stream that has several."""
    readers = Counter(name for segment in segments for name in segment.sources)
    used: Counter[str] = Counter()
    found: list[Segment] = []
    for segment in segments:
        renamed = {}
        for name in segment.sources:
            if readers[name] > 1:
                renamed[name] = f"{name}_queue{used[name]}"
                used[name] += 1
                streams[renamed[name]] = streams[name]
                found.append(Fifo(sources=(name,), result=renamed[name]))
        sources = tuple(renamed.get(name, name) for name in segment.sources)
        if isinstance(segment, Pipeline):
            inside = {name: renamed.get(stream, stream) for name, stream in segment.inside.items()}
            found.append(replace(segment, sources=sources, inside=inside))
        else:
            found.append(replace(segment, sources=sources))
    return found
