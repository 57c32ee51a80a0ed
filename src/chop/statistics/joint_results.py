"""The results of many small statistics, computed together: a graph has thousands of small tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from chop.statistics.base import Reduction, Statistic, Total
from chop.statistics.log_histogram import LogHistogram
from chop.statistics.state import State, find_component, join_groups, to_tensors

MAX_VALUES_JOINED = 1 << 18
"""The size of the states that are joined. Larger ones would take memory and save no time."""


class _Member(NamedTuple):
    """A statistic whose result is computed together with others."""

    position: int
    statistic: Reduction[Any]
    total: Total[State]
    tensors: Mapping[str, Tensor]
    """Its state."""


def compute_all(statistics: Sequence[Statistic]) -> list[dict[str, Any]]:
    """Return what `compute` returns for each of the statistics.

    States of the same shape, of statistics with the same options, are computed together, as groups of one
    statistic: that takes as long for hundreds of small tensors as for one.
    """
    results: list[dict[str, Any]] = [{}] * len(statistics)
    alike: dict[object, list[_Member]] = {}
    for position, statistic in enumerate(statistics):
        if not isinstance(statistic, Reduction) or (total := _joinable(statistic)) is None:
            results[position] = statistic.compute()
        else:
            tensors = to_tensors(total.state)
            shapes = tuple((name, each.shape, each.dtype, each.device) for name, each in tensors.items())
            member = _Member(position, statistic, total, tensors)
            alike.setdefault((repr(statistic), shapes), []).append(member)
    for members in alike.values():
        length = max(1, MAX_VALUES_JOINED // sum(tensor.numel() for tensor in members[0].tensors.values()))
        for start in range(0, len(members), length):
            chunk = members[start : start + length]
            for member, result in zip(chunk, _compute_joined(chunk), strict=True):
                results[member.position] = result
    return results


def _joinable(statistic: Reduction[Any]) -> Total[State] | None:
    """Return what a statistic of one group has observed; None if it is nothing, or contains the group's number."""
    total = statistic.total
    if total is None or not statistic.is_single:
        return None
    return total if statistic.needs_moments_only or find_component(total.state, LogHistogram) is None else None


def _compute_joined(members: Sequence[_Member]) -> list[dict[str, Any]]:
    statistic = members[0].statistic
    count = torch.cat([each.total.count for each in members])
    nan_count = torch.cat([each.total.nan_count for each in members]).tolist()
    state = join_groups(type(members[0].total.state), [each.tensors for each in members])
    results = {**statistic.summarize(state, count), "count": count}
    rows = (result.tolist() if result.ndim == 1 else result.unbind() for result in results.values())
    found = [dict(zip(results, row, strict=True)) for row in zip(*rows, strict=True)]
    for result, number in zip(found, nan_count, strict=True):
        if statistic.always_has_nan_count or number:
            result["nan_count"] = number
    return found
