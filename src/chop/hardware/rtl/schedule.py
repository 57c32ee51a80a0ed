"""When words move through a circuit: the handshakes of its segments, cycle by cycle, without data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chop.hardware.rtl.line_buffer import LineBuffer

NUM_VECTORS = 4
"""Vectors that are sent: the interval is measured between the last two."""


class Timer(ABC):
    """The handshake of one segment; it is asked once per cycle, and then advances."""

    @abstractmethod
    def valid(self, given: bool) -> bool:
        """Whether it offers a word, if `given` says whether all its inputs are offered."""

    @abstractmethod
    def ready(self, taken: bool) -> bool:
        """Whether it takes words, if `taken` says whether its own would be taken."""

    @abstractmethod
    def advance(self, accepts: bool, offers: bool, sends: bool) -> bool:
        """Go to the next cycle; return whether anything changed except for countdowns."""

    @property
    def countdown(self) -> int | None:
        """Cycles until something happens without a word from outside; None: never."""
        return None

    def skip(self, cycles: int) -> None:
        """Go on by some cycles in which nothing happens; only countdowns change."""
        assert self.countdown is None, "a timer that counts down skips"


class PipelineTimer(Timer):
    """Stages that advance together, and a skid buffer."""

    def __init__(self, latency: int) -> None:
        self.stages = deque([False] * latency)
        self.held, self.enable = False, True

    def valid(self, given: bool) -> bool:
        if not self.stages:
            return given
        return self.held or (self.stages[-1] and self.enable)

    def ready(self, taken: bool) -> bool:
        return self.enable if self.stages else taken

    def advance(self, accepts: bool, offers: bool, sends: bool) -> bool:
        if not self.stages:
            return accepts
        before = self.held, self.enable
        moves = self.enable and (accepts or any(self.stages))
        if self.enable:
            self.stages.pop()
            self.stages.appendleft(accepts)
        self.held = offers and not sends
        self.enable = not self.held
        return moves or before != (self.held, self.enable)


class FoldedTimer(Timer):
    """One word at a time, which takes `latency` cycles."""

    def __init__(self, latency: int) -> None:
        self.latency = latency
        self.busy, self.left = False, 0

    def valid(self, given: bool) -> bool:
        return self.busy and self.left == 0

    def ready(self, taken: bool) -> bool:
        return not self.busy

    def advance(self, accepts: bool, offers: bool, sends: bool) -> bool:
        if accepts:
            self.busy, self.left = True, self.latency - 1
            return True
        if sends:
            self.busy = False
        elif self.left:
            self.left -= 1
            return self.left == 0
        return sends

    @property
    def countdown(self) -> int | None:
        return self.left or None

    def skip(self, cycles: int) -> None:
        self.left = max(0, self.left - cycles)


class LineBufferTimer(Timer):
    """One step per pixel and per pixel of padding to the right and below; some complete a window."""

    def __init__(self, buffer: LineBuffer) -> None:
        rows, columns = buffer.steps
        height, length = buffer.window.size
        (first_row, first_col), (down, right) = buffer.first, buffer.window.stride
        places = [(row, col) for row in range(rows) for col in range(columns)]
        self.inside = [row < height and col < length for row, col in places]
        self.complete = [
            row >= first_row
            and col >= first_col
            and (row - first_row) % down == 0
            and (col - first_col) % right == 0
            for row, col in places
        ]
        self.at, self.holds = 0, False

    def valid(self, given: bool) -> bool:
        return self.holds

    def ready(self, taken: bool) -> bool:
        self.free = not self.holds or taken
        return self.free and self.inside[self.at]

    def advance(self, accepts: bool, offers: bool, sends: bool) -> bool:
        if self.free and (accepts or not self.inside[self.at]):
            self.holds = self.complete[self.at]
            self.at = (self.at + 1) % len(self.inside)
            return True
        self.holds = self.holds and not sends
        return sends


class CollectTimer(Timer):
    """Collects `beats` words into one."""

    def __init__(self, beats: int) -> None:
        self.beats, self.count, self.holds = beats, 0, False

    def valid(self, given: bool) -> bool:
        return self.holds

    def ready(self, taken: bool) -> bool:
        return not self.holds or taken

    def advance(self, accepts: bool, offers: bool, sends: bool) -> bool:
        self.holds = self.holds and not sends
        if accepts:
            self.count = (self.count + 1) % self.beats
            self.holds = self.count == 0
        return accepts or sends


class SendTimer(Timer):
    """Sends a word in `beats` parts."""

    def __init__(self, beats: int) -> None:
        self.beats, self.left = beats, 0

    def valid(self, given: bool) -> bool:
        return self.left > 0

    def ready(self, taken: bool) -> bool:
        return self.left == 0 or (self.left == 1 and taken)

    def advance(self, accepts: bool, offers: bool, sends: bool) -> bool:
        self.left = self.beats if accepts else self.left - sends
        return accepts or sends


class FifoTimer(Timer):
    """A queue; `most` is the largest number of words that it held."""

    def __init__(self, depth: int | None) -> None:
        self.depth, self.count, self.most = depth, 0, 0

    def valid(self, given: bool) -> bool:
        return self.count > 0

    def ready(self, taken: bool) -> bool:
        return self.depth is None or self.count < self.depth

    def advance(self, accepts: bool, offers: bool, sends: bool) -> bool:
        self.count += accepts - sends
        self.most = max(self.most, self.count)
        return accepts or sends


@dataclass(frozen=True)
class TimedSegment:
    """A segment in a schedule: the streams that it reads, the one that it writes, and its handshake."""

    sources: tuple[str, ...]
    result: str
    timer: Timer


@dataclass(frozen=True)
class Schedule:
    """The cycles in which words move, for steady traffic."""

    transfers: Mapping[str, tuple[int, ...]]
    """By stream: the cycle of each word, counted from the first word of the input."""
    latency: int
    """Cycles from the first word of a vector to the last word of its result."""
    interval: int
    """Cycles between two vectors."""


def schedule(steps: Sequence[TimedSegment], source: str, result: str, beats: int) -> Schedule:
    """Send vectors through the segments, which are in the order of data, until the results have `beats` each."""
    moved: dict[str, list[int]] = {source: [], **{step.result: [] for step in steps}}
    cycle, found = 0, moved[result]
    limit = NUM_VECTORS * beats
    idle = 0
    while len(found) < limit:
        changed = _cycle(steps, source, result, moved, cycle)
        cycle += 1
        waits = [step.timer.countdown for step in steps]
        cycles = min((wait for wait in waits if wait is not None), default=None)
        if not changed and cycles is not None:
            for step in steps:
                step.timer.skip(cycles)
            cycle += cycles
        idle = 0 if changed or cycles is not None else idle + 1
        assert idle < 10, "a circuit that takes words makes progress"
    ends = found[beats - 1 :: beats]
    return Schedule({name: tuple(times) for name, times in moved.items()}, ends[0], ends[-1] - ends[-2])


def _cycle(
    steps: Sequence[TimedSegment], source: str, result: str, moved: dict[str, list[int]], cycle: int
) -> bool:
    """Move words in one cycle; return whether anything changed except for countdowns."""
    valid = {source: True}
    for step in steps:
        valid[step.result] = step.timer.valid(all(valid[name] for name in step.sources))
    ready = dict.fromkeys(valid, True)
    for step in reversed(steps):
        takes = step.timer.ready(ready[step.result])
        for name in step.sources:
            others = all(valid[other] for other in step.sources if other != name)
            ready[name] = ready[name] and takes and others
    for name, times in moved.items():
        if valid[name] and ready[name]:
            times.append(cycle)
    changed = False
    for step in steps:
        accepts = all(valid[name] and ready[name] for name in step.sources)
        offers = valid[step.result]
        changed |= step.timer.advance(accepts, offers, offers and ready[step.result])
    return changed
