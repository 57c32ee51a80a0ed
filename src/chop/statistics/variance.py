"""Mean and variance."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.layout import Sample
from chop.statistics.moments import Moments


@register_statistic("variance_precise")
@dataclass(eq=False)
class VariancePrecise(Reduction[Moments]):
    """Mean and unbiased variance, in double precision: two runs over each tensor, parts merged (Chan et al.)."""

    def observe(self, sample: Sample) -> Moments:
        return sample.once(Moments.of)

    def summarize(self, state: Moments, count: Tensor) -> dict[str, Tensor]:
        return {"mean": state.mean, "variance": state.variance}


@register_statistic("variance_online")
@dataclass(eq=False)
class VarianceOnline(VariancePrecise):
    """The same as `variance_precise`, which needs no more memory; both names are in use."""
