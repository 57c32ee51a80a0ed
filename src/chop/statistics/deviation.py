"""How far numbers are from what they were."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from chop.ir.graph.interpreter import tensors_in

_CHUNK = 2**15  # numbers that are looked at together: their copies in double precision stay in the cache


class Deviation:
    """Signal-to-noise ratio, largest error and cosine of all that was added, in double precision.

    Where both sides are NaN, or the same infinity, nothing has changed; any other NaN or infinity is an error
    without bounds.
    """

    def __init__(self) -> None:
        self.max_error = 0.0
        self._signal = self._other = self._product = self._noise = 0.0

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantisation-noise ratio: infinite where nothing has changed."""
        return decibel(self._signal, self._noise)

    @property
    def cosine(self) -> float:
        """Of the angle between both sides; 0 where one of them has no direction."""
        if self._noise == 0:
            return 1.0
        lengths = math.sqrt(self._signal) * math.sqrt(self._other)
        return max(-1.0, min(1.0, self._product / lengths)) if 0 < lengths < math.inf else 0.0

    def add(self, original: Any, other: Any) -> None:
        """Two tensors, or tuples, lists and dicts of them; beside real numbers, indices are not looked at."""
        before, after = measured_in(original), measured_in(other)
        if [tensor.shape for tensor in before] != [tensor.shape for tensor in after]:
            shapes = ([list(tensor.shape) for tensor in side] for side in (before, after))
            raise ValueError("only tensors of the same shapes can be compared, got {} and {}".format(*shapes))
        for ours, theirs in zip(before, after, strict=True):
            chunks = zip(ours.flatten().split(_CHUNK), theirs.flatten().split(_CHUNK), strict=True)
            for a, b in chunks:
                self._add(a.double(), b.double())

    def _add(self, a: Tensor, b: Tensor) -> None:
        if a.numel() == 0:
            return
        error = b - a
        sums = torch.stack((a.dot(a), b.dot(b), a.dot(b), error.dot(error), error.abs().max()))
        signal, other, product, noise, largest = sums.tolist()
        if not math.isfinite(noise):
            same = ((a == b) & a.isinf()) | (a.isnan() & b.isnan())
            if same.any():
                return self._add(a[~same], b[~same])
            noise = largest = math.inf
        self._signal += signal
        self._other += other
        self._product += product
        self._noise += noise
        self.max_error = max(self.max_error, largest)


def measured_in(value: Any) -> list[Tensor]:
    """The tensors of real numbers in a value; if there are none, those of integers."""
    found = [torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in tensors_in(value)]
    return [tensor for tensor in found if tensor.is_floating_point()] or found


def decibel(signal: float, noise: float) -> float:
    """The ratio of two powers in dB."""
    if noise == 0:
        return math.inf
    if signal == 0 or noise == math.inf:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))


def decibel_text(value: float | None) -> str:
    """A ratio in decibels for a table; nothing is a dash, no error at all is `exact`."""
    if value is None:
        return "-"
    return "exact" if value == math.inf else f"{value:.1f} dB"
