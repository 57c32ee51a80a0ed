"""Statistics of many tensors from their moments, which a compiled loop finds in one pass over each tensor."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from chop.formats.kernels.row_statistics import MomentsTable
from chop.statistics.base import Reduction, Statistic
from chop.statistics.layout import Layout, MeasuredGroups, arrange

_NUM_ROWS = 1024
"""For which memory is reserved."""
_NOTHING_KEPT = torch.Size()


class JointMoments:
    """The moments of several tensors, from which the statistics of all of them are made together.

    While a model runs, little of Python's code is in the processor's cache: what can be done later takes less time.
    """

    def __init__(self, statistics: Mapping[str, Statistic], layout: Layout) -> None:
        """Measure for each tensor copies of these statistics, which have a layout in common."""
        self._statistics, self._layout = statistics, layout
        self._is_single = layout == Layout("all", None, None)
        self._table = MomentsTable(_NUM_ROWS)
        self._measured: list[tuple[dict[str, Statistic], torch.Size, int]] = []

    def measure(self, tensor: Tensor) -> dict[str, Statistic] | None:
        """Return a dict that will have the statistics of a tensor; None if its moments cannot be measured."""
        if tensor.dtype is not torch.float32:
            return None
        values, kept_shape, groups = tensor, _NOTHING_KEPT, 1
        if not (self._is_single and tensor.is_contiguous()):
            try:
                grouped = arrange(tensor.detach(), self._layout)
            except ValueError:  # an update of the statistics reports it
                return None
            values, kept_shape, groups = grouped.values, grouped.kept_shape, len(grouped.values)
        if not self._table.add(values, groups):
            return None
        found: dict[str, Statistic] = {}
        self._measured.append((found, kept_shape, values.numel() // groups))
        return found

    def make_statistics(self) -> None:
        """Make the statistics of all tensors that were measured."""
        groups = [kept_shape.numel() for _, kept_shape, _ in self._measured]
        lengths = torch.tensor([length for _, _, length in self._measured], dtype=torch.int64)
        count = lengths.repeat_interleave(torch.tensor(groups, dtype=torch.int64))
        per_tensor = (each.split(groups) for each in (count, torch.zeros_like(count), *self._table.columns()))
        for (found, kept_shape, _), views in zip(self._measured, zip(*per_tensor, strict=True), strict=True):
            count, nan_count, *moments = (view.clone() for view in views)  # a pickled view contains the whole table
            grouped = MeasuredGroups(kept_shape, tuple(moments), count, nan_count)
            for name, statistic in self._statistics.items():
                found[name] = made = copy.copy(statistic)
                assert isinstance(made, Reduction), "others need more than moments"
                made.update_from_groups(grouped)


def shared_layout(statistics: Iterable[Statistic]) -> Layout | None:
    """Return the layout of statistics that need moments only; None if they have several, or need more."""
    layouts: set[Layout | None] = {
        each.layout if isinstance(each, Reduction) and each.needs_moments_only else None for each in statistics
    }
    return layouts.pop() if len(layouts) == 1 else None
