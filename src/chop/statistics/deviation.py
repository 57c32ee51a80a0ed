"""Error measures between original and changed values: SQNR, largest error, cosine."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from chop.ir.graph.interpreter import tensors_in

_CHUNK_SIZE = 2**15  # values compared at a time: their copies in double precision stay in the cache


class Deviation:
    """SQNR, largest error and cosine similarity over all values added, in double precision.

    Two NaNs, or two equal infinities, count as unchanged; any other NaN or infinity is an infinite error.
    """

    def __init__(self) -> None:
        self.max_error = 0.0
        self._signal = self._other = self._product = self._noise = 0.0

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantisation-noise ratio; infinite if nothing has changed."""
        return decibel(self._signal, self._noise)

    @property
    def cosine(self) -> float:
        """Cosine similarity of original and changed values; 0 if one of them is all zeros."""
        if self._noise == 0:
            return 1.0
        lengths = math.sqrt(self._signal) * math.sqrt(self._other)
        return max(-1.0, min(1.0, self._product / lengths)) if 0 < lengths < math.inf else 0.0

    def add(self, original: Any, other: Any) -> None:
        """Add two tensors, or tuples, lists and dicts of tensors; integers count only if there are no floats."""
        before, after = measured_in(original), measured_in(other)
        if [tensor.shape for tensor in before] != [tensor.shape for tensor in after]:
            shapes = ([list(tensor.shape) for tensor in side] for side in (before, after))
            raise ValueError("only tensors of the same shape can be compared, got {} and {}".format(*shapes))
        for ours, theirs in zip(before, after, strict=True):
            self.add_tensor(ours, theirs)

    def add_tensor(self, original: Tensor, other: Tensor) -> None:
        """Add two tensors of real numbers and of the same shape."""
        for a, b in zip(_chunks(original), _chunks(other), strict=True):
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


def _chunks(tensor: Tensor) -> tuple[Tensor, ...]:
    values = tensor.flatten()
    return (values,) if values.numel() <= _CHUNK_SIZE else values.split(_CHUNK_SIZE)


def measured_in(value: Any) -> list[Tensor]:
    """Return the floating-point tensors in a nested value or, if there are none, its integer tensors."""
    found = [torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in tensors_in(value)]
    return [tensor for tensor in found if tensor.is_floating_point()] or found


def decibel(signal: float, noise: float) -> float:
    """Return the ratio of two powers in dB."""
    if noise == 0:
        return math.inf
    if signal == 0 or noise == math.inf:
        return -math.inf
    return 10 * (math.log10(signal) - math.log10(noise))
