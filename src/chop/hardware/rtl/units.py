"""Units: an instruction together with the rounding and ReLU that follow it; each becomes one module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chop.hardware.program import Program, Signal
from chop.hardware.program.instructions import Align, InputPort, Instruction, Rearrange, Rectify, Requantize
from chop.hardware.program.signal import IntArray

Post = Requantize | Rectify


@dataclass(frozen=True, eq=False)
class CircuitUnit:
    """What one module computes."""

    head: Instruction
    posts: tuple[Post, ...]
    sources: tuple[Signal, ...]
    """The signals that the head reads."""

    @property
    def name(self) -> str:
        return self.head.name

    @property
    def node(self) -> str:
        return self.head.node

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of the graph that the unit computes; rounding may belong to the node that reads the result."""
        computing = [post for post in self.posts if isinstance(post, Rectify)]
        return tuple(dict.fromkeys(each.node for each in (self.head, *computing)))

    @property
    def result(self) -> str:
        """The name of the instruction whose result leaves the unit."""
        return (self.posts[-1] if self.posts else self.head).name

    @property
    def out(self) -> Signal:
        return (self.posts[-1] if self.posts else self.head).out

    @property
    def is_wiring(self) -> bool:
        """Whether the unit only renames wires."""
        return isinstance(self.head, Rearrange | Align) and not self.posts


def make_units(program: Program) -> list[CircuitUnit]:
    """Return the units of a program in the order in which they compute."""
    units: list[CircuitUnit] = []
    taken: set[str] = set()
    for head in program:
        if isinstance(head, InputPort) or head.name in taken:
            continue
        posts: list[Post] = []
        last = head
        while last.name != program.result:
            readers = program.readers(last.name)
            if len(readers) != 1 or not isinstance(readers[0], Requantize | Rectify) or isinstance(head, Rearrange):
                break
            last = readers[0]
            posts.append(last)
            taken.add(last.name)
        units.append(CircuitUnit(head, tuple(posts), tuple(program[name].out for name in head.reads)))
    return units


def shares_limits(post: Requantize, groups: IntArray, same_shift: bool = True) -> bool:
    """Whether the elements of each group [groups, elements] can be rounded and saturated in the same way.

    Their limits may differ where no value reaches them, and their shifts unless `same_shift` is set.
    """
    shift, before = post.shift[groups], post.before.take(groups)
    low, high = (each.ravel()[groups] for each in (post.out.low, post.out.high))
    lowest, highest = np.floor(np.ldexp(before.low, -shift)), np.ceil(np.ldexp(before.high, -shift))
    binds = ((low > low.min(1, keepdims=True)) & (lowest < low)) | (
        (high < high.max(1, keepdims=True)) & (highest > high)
    )
    return not binds.any() and (not same_shift or bool((shift == shift[:, :1]).all()))
