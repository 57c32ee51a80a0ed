"""The largest magnitude that a format should represent, chosen from the values of a tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from chop.config.sweep import CalibrationMethod
from chop.formats import Format
from chop.statistics import Reduction, Statistic
from chop.statistics.distribution import Distribution, Extremes
from chop.statistics.log_histogram import LogHistogram

_NUM_CANDIDATES = 48
_CHUNK_SIZE = 2**22  # values counted at a time: counting takes several times their memory


@dataclass
class Magnitudes:
    """The magnitudes of values, in bounded memory: the largest is exact, the others are within 0.8 %."""

    largest: float = 0.0
    histogram: LogHistogram | None = field(default=None, repr=False)

    def update(self, x: Tensor) -> None:
        """Add the finite values of a tensor."""
        for values in x.detach().flatten().split(_CHUNK_SIZE):
            magnitude = values.abs()
            magnitude = magnitude[magnitude.isfinite()]
            if magnitude.numel():
                self.merge(Magnitudes(magnitude.amax().item(), LogHistogram.of(magnitude.unsqueeze(0), None)))

    def merge(self, other: Magnitudes) -> None:
        """Add the magnitudes of another set of values."""
        self.largest = max(self.largest, other.largest)
        if self.histogram is None or other.histogram is None:
            self.histogram = self.histogram or other.histogram
        else:
            self.histogram = self.histogram.merged(other.histogram)

    @classmethod
    def of_profile(cls, statistics: Mapping[str, Statistic], method: CalibrationMethod) -> Magnitudes:
        """Return the magnitudes in a tensor's statistics; `min_max` needs only its range, others `summary`."""
        reductions = [each for each in statistics.values() if isinstance(each, Reduction)]
        for reduction in reductions:
            distribution = reduction.component(Distribution)
            if distribution is not None:
                return cls(*distribution.magnitudes())
        if method == "min_max":
            for reduction in reductions:
                extremes = reduction.component(Extremes)
                if extremes is not None and math.isfinite(largest := extremes.largest_magnitude()):
                    return cls(largest)
        also = ", or 'range_min_max' without infinities" if method == "min_max" else ""
        present = ", ".join(f"'{name}'" for name in statistics) or "nothing"
        raise ValueError(f"method '{method}' needs 'summary' or 'histogram'{also}; the profile has {present}")


def limit(magnitudes: Magnitudes, number_format: Format, method: CalibrationMethod, percentile: float) -> float:
    """Return the largest magnitude that `number_format` should represent."""
    if magnitudes.histogram is None or magnitudes.largest == 0 or method == "min_max":
        return magnitudes.largest
    values, counts = magnitudes.histogram.values.clamp(max=magnitudes.largest), magnitudes.histogram.counts.double()
    if method == "percentile":
        reached = counts.cumsum(0) / counts.sum() >= percentile / 100
        return float(values[reached][0])

    def cost(largest: float) -> float:
        scale = number_format.scale_for(largest)
        given = None if scale is None else torch.tensor(scale, dtype=values.dtype)
        rounded = number_format.fitted(largest)(values, given)
        if method == "mse":
            return float(((rounded - values).square() * counts).sum())
        return _divergence(values, counts, rounded)

    candidates: list[float] = [magnitudes.largest * 2.0 ** (-i / 4) for i in range(_NUM_CANDIDATES)]
    return min(candidates, key=cost)


def _divergence(values: Tensor, counts: Tensor, rounded: Tensor) -> float:
    """Return the Kullback-Leibler divergence of the rounded from the original distribution, as TensorRT calibrates.

    Values that saturate count at the limit in the original; the mass of a level is spread evenly over its values.
    """
    levels, level_of = rounded.unique(return_inverse=True)
    saturated = values > levels[-1]
    original = counts.clone()
    last = int((~saturated).nonzero()[-1]) if bool((~saturated).any()) else len(values) - 1
    original[last] += counts[saturated].sum()
    original[saturated] = 0
    inside = ~saturated
    mass = counts.new_zeros(len(levels)).index_add_(0, level_of[inside], counts[inside])
    spread = counts.new_zeros(len(levels)).index_add_(0, level_of[inside], inside[inside].double())
    model = (mass / spread.clamp(min=1))[level_of]
    p, q = original / original.sum(), model / model[inside].sum()
    used = p > 0
    if bool((q[used] <= 0).any()):
        return math.inf
    return float((p[used] * (p[used] / q[used]).log()).sum())
