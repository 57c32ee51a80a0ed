"""Pooling ops: the mean or the maximum of windows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from chop.ops.base import Call, Count, Op, Operand, numel
from chop.ops.table import register_op

_DATA = (Operand("data_in_0", "data_in", 0, ("input",)),)


def _window(call: Call, dims: int) -> int:
    kernel = call.attributes["kernel_size"]
    return kernel**dims if isinstance(kernel, int) else numel(tuple(kernel) * (dims if len(kernel) == 1 else 1))


def _adaptive_adds(call: Call, dims: int) -> int:
    """Return the elements of all windows, which overlap if the input's size is not a multiple of the output's."""
    total = numel(call.results[0][:-dims])
    for n, m in zip(call.operands["data_in_0"][-dims:], call.results[0][-dims:], strict=True):
        total *= sum(-(-(i + 1) * n // m) - i * n // m for i in range(m))
    return total


def _register_pools(dims: int) -> None:
    """Register the four pooling ops over `dims` dimensions."""

    def maximum(call: Call) -> Count:
        return Count(adds=numel(call.results[0]) * _window(call, dims))

    def mean(call: Call) -> Count:
        return Count(adds=numel(call.results[0]) * _window(call, dims), multiplies=numel(call.results[0]))

    def adaptive_maximum(call: Call) -> Count:
        return Count(adds=_adaptive_adds(call, dims))

    def adaptive_mean(call: Call) -> Count:
        return Count(adds=_adaptive_adds(call, dims), multiplies=numel(call.results[0]))

    for kind, name, count in (
        ("Max", f"max_pool{dims}d", maximum),
        ("Avg", f"avg_pool{dims}d", mean),
        ("AdaptiveMax", f"adaptive_max_pool{dims}d", adaptive_maximum),
        ("AdaptiveAvg", f"adaptive_avg_pool{dims}d", adaptive_mean),
    ):
        spellings = {getattr(module, name) for module in (F, torch) if hasattr(module, name)}
        register_op(
            Op(
                name,
                "module_related_func",
                operands=_DATA,
                modules=(getattr(nn, f"{kind}Pool{dims}d"),),
                functions=tuple(sorted(spellings, key=repr)),
                attributes={} if kind.startswith("Adaptive") else {"kernel_size": 1},
                count=count,
            )
        )


for _dims in (1, 2):
    _register_pools(_dims)
