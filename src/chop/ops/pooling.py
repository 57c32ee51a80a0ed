"""Pooling: the mean, the maximum or a norm of windows."""

from __future__ import annotations

import re
from collections.abc import Callable

from torch import nn

from chop.ops.base import Call, Count, numel
from chop.ops.spellings import data, register_spelled


def _window(call: Call, dims: int) -> int:
    kernel = call.attributes["kernel_size"]
    return kernel**dims if isinstance(kernel, int) else numel(tuple(kernel) * (dims if len(kernel) == 1 else 1))


def _adaptive_adds(call: Call, dims: int) -> int:
    """Return the elements of all windows, which overlap if the input's size is not a multiple of the output's."""
    total = numel(call.results[0][:-dims])
    for n, m in zip(call.operands["data_in_0"][-dims:], call.results[0][-dims:], strict=True):
        total *= sum(-(-(i + 1) * n // m) - i * n // m for i in range(m))
    return total


def _counts(dims: int) -> dict[str, Callable[[Call], Count]]:
    """Return how to count each kind of pooling over `dims` dimensions."""

    def maximum(call: Call) -> Count:
        return Count(adds=numel(call.results[0]) * _window(call, dims))

    def mean(call: Call) -> Count:
        return maximum(call) + Count(multiplies=numel(call.results[0]))

    def norm(call: Call) -> Count:  # a power and an addition per element of a window, and a root
        adds = maximum(call).adds
        return Count(adds=adds, multiplies=adds + numel(call.results[0]))

    def adaptive_maximum(call: Call) -> Count:
        return Count(adds=_adaptive_adds(call, dims))

    def adaptive_mean(call: Call) -> Count:
        return adaptive_maximum(call) + Count(multiplies=numel(call.results[0]))

    return {
        "Max": maximum,
        "Avg": mean,
        "LP": norm,
        "FractionalMax": maximum,
        "AdaptiveMax": adaptive_maximum,
        "AdaptiveAvg": adaptive_mean,
    }


for _dims in (1, 2, 3):
    for _kind, _count in _counts(_dims).items():
        _name = re.sub("(?<=[a-z])(?=[A-Z])", "_", _kind).lower() + f"_pool{_dims}d"
        if not hasattr(nn, f"{_kind}Pool{_dims}d"):
            continue  # FractionalMaxPool1d
        register_spelled(
            _name,
            "module_related_func",
            data("data_in"),
            other_names=(f"{_name}_with_indices",),
            modules=(getattr(nn, f"{_kind}Pool{_dims}d"),),
            aten=(f"_{_name}",),
            attributes={} if _kind.startswith("Adaptive") else {"kernel_size": 2 if _kind == "LP" else 1},
            count=_count,
        )
