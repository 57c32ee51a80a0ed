"""Mean magnitude, mean and variance of values that arrive in several tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.layout import GroupedValues
from chop.statistics.state import check_tensor

_SLICE_SIZE = 1 << 16
"""The number of values that are converted to double precision at a time; they stay in the processor's cache."""


@dataclass(frozen=True)
class Moments:
    """Count, sum, and sum of squared deviations from the mean per group, in double precision."""

    count: Tensor
    total: Tensor
    squares: Tensor

    @classmethod
    def of(cls, grouped: GroupedValues) -> Moments:
        """Return the moments of one tensor."""
        if grouped.row_moments is not None:
            _, _, total, squares = grouped.row_moments
            return cls(grouped.count.double(), total, squares)
        if grouped.nans is None:
            return cls._in_slices(grouped.values)
        count = grouped.count.double()
        values = grouped.values.double()
        total = grouped.fill(values, 0.0).sum(1)
        deviations = grouped.fill(values - (total / count).unsqueeze(1), 0.0)
        return cls(count, total, deviations.square_().sum(1))

    @classmethod
    def _in_slices(cls, values: Tensor) -> Moments:
        width = min(max(_SLICE_SIZE // len(values), 1), values.shape[1])
        buffer = torch.empty(len(values), width, dtype=torch.float64, device=values.device)
        found = [_of_slice(buffer[:, : part.shape[1]].copy_(part)) for part in values.split(width, dim=1)]
        count, total, squares = (torch.stack(each) for each in zip(*found, strict=True))
        all_count, all_total = count.sum(0), total.sum(0)
        if len(found) == 1:
            return cls(all_count, all_total, squares[0])
        between = (total / count - all_total / all_count).square_() * count
        return cls(all_count, all_total, (squares + between).sum(0))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both together (Chan, Golub and LeVeque 1979)."""
        count = self.count + other.count
        squares = self.squares + other.squares
        between = (other.mean - self.mean).square() * (self.count * other.count / count)
        # A group without values has no mean and contributes nothing.
        nothing_between = (self.count == 0) | (other.count == 0)
        return Moments(count, self.total + other.total, squares + between.masked_fill(nothing_between, 0.0))

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    @property
    def variance(self) -> Tensor:
        """Unbiased; NaN for fewer than two values."""
        return self.squares / (self.count - 1).clamp(min=0)

    def check(self, count: Tensor) -> None:
        for tensor in (self.count, self.total, self.squares):
            check_tensor(tensor, torch.float64, len(count))
        if not self.count.equal(count.double()):
            raise ValueError("the counts are inconsistent")
        if bool((self.squares < 0).any()):
            raise ValueError("a sum of squares is negative")


def _of_slice(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return count, sum and squared deviations; `values` has dtype float64 and is overwritten."""
    total = values.sum(1)
    count = torch.full_like(total, values.shape[1])
    return count, total, values.sub_((total / count).unsqueeze(1)).square_().sum(1)


@register_statistic("variance_precise")
@dataclass(eq=False)
class VariancePrecise(Reduction[Moments]):
    """Mean and unbiased variance in double precision: two passes over each tensor, merged (Chan et al. 1979)."""

    needs_moments_only = True

    def observe(self, grouped: GroupedValues) -> Moments:
        return grouped.once(Moments.of)

    def summarize(self, state: Moments, count: Tensor) -> dict[str, Tensor]:
        return {"mean": state.mean, "variance": state.variance}


@register_statistic("variance_online")
@dataclass(eq=False)
class VarianceOnline(VariancePrecise):
    """The same as `variance_precise`, which does not need more memory; both names are in use."""


@dataclass(frozen=True)
class Sums:
    """One sum per group, in double precision."""

    total: Tensor
    """The sums; the field's name is in profile files."""

    def merged(self, other: Sums) -> Sums:
        return Sums(self.total + other.total)

    def check(self, count: Tensor) -> None:
        check_tensor(self.total, torch.float64, len(count))


@register_statistic("abs_mean")
@dataclass(eq=False)
class AbsMean(Reduction[Sums]):
    """The mean of |x|, as `abs_mean`."""

    def observe(self, grouped: GroupedValues) -> Sums:
        return Sums(grouped.fill(grouped.values, 0.0).abs().sum(1, dtype=torch.float64))

    def summarize(self, state: Sums, count: Tensor) -> dict[str, Tensor]:
        return {"abs_mean": state.total / count}
