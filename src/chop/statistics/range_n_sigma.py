"""The range that a number of standard deviations spans around the mean."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.layout import Sample
from chop.statistics.moments import Moments


@register_statistic("range_n_sigma")
@dataclass(eq=False)
class RangeNSigma(Reduction[Moments]):
    """From mean - num_sigma x deviation to mean + num_sigma x deviation (the unbiased one)."""

    num_sigma: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.num_sigma > 0:
            raise ValueError(f"'num_sigma' must be above 0, got {self.num_sigma}")

    def observe(self, sample: Sample) -> Moments:
        return sample.once(Moments.of)

    def summarize(self, state: Moments, count: Tensor) -> dict[str, Tensor]:
        reach = self.num_sigma * state.variance.sqrt()
        return {"min": state.mean - reach, "max": state.mean + reach, "range": 2 * reach}
