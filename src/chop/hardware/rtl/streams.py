"""How tensors travel between the parts of a circuit: whole, or pixel by pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chop.hardware.program import Signal
from chop.hardware.program.signal import IntArray
from chop.hardware.rtl.circuit import port_width


@dataclass(frozen=True, eq=False)
class Stream:
    """A tensor in `beats` words; each word holds the elements of all channels of one pixel."""

    lanes: Signal
    """The elements of a word, with bounds that hold for all words."""
    beats: int = 1

    @classmethod
    def whole(cls, signal: Signal) -> Stream:
        """Return a stream with a complete tensor per word."""
        return cls(signal.flat())

    @classmethod
    def of_pixels(cls, signal: Signal) -> Stream:
        """Return a stream with one pixel of a tensor [channels, *size] per word."""
        return cls(merge_pixels(signal), signal.numel // signal.shape[0])

    @property
    def order(self) -> IntArray:
        """[beats, lanes]: which element of the tensor is where."""
        return np.arange(self.lanes.numel * self.beats).reshape(self.lanes.numel, self.beats).T

    @property
    def bits(self) -> int:
        """The bits of a word, at least 1."""
        return port_width(self.lanes)


def merge_pixels(signal: Signal) -> Signal:
    """Return one element per channel, with bounds that hold for all its pixels."""
    frac, low, high = (each.reshape(signal.shape[0], -1) for each in (signal.frac, signal.low, signal.high))
    if (frac != frac[:, :1]).any():
        raise ValueError("the pixels of a channel have different fraction bits")
    return Signal(frac[:, 0], low.min(axis=1), high.max(axis=1))
