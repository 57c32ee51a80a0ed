"""Resizing and sampling of images: interpolation between neighbouring elements, and sums of overlapping windows."""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import nn

from chop.ops.base import Call, Count, Op, numel
from chop.ops.spellings import add_all, data, register_spelled
from chop.ops.table import register_op

_NEIGHBOURS = {
    "nearest": 0,
    "nearest-exact": 0,
    "linear": 2,
    "bilinear": 4,
    "trilinear": 8,
    "bicubic": 16,
}
"""The number of elements that are combined; the nearest one is copied."""


def _interpolation(neighbours: int, call: Call) -> Count:
    """Count a product per neighbour, and the additions of all of them."""
    n = numel(call.results[0])
    return Count(multiplies=neighbours * n, adds=max(neighbours - 1, 0) * n)


def _by_mode(call: Call) -> Count | None:
    """Count by the argument `mode`; unknown for `area`, an adaptive pooling."""
    mode = call.attributes.get("mode", "nearest")
    return _interpolation(_NEIGHBOURS[mode], call) if mode in _NEIGHBOURS else None


register_spelled(
    "interpolate",
    "module_related_func",
    data("data_in"),
    modules=(nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d),
    attributes={"mode": 3},
    count=_by_mode,
)
for _mode, _dims in (
    *(("nearest", dims) for dims in (1, 2, 3)),
    ("linear", 1),
    ("bilinear", 2),
    ("bicubic", 2),
    ("trilinear", 3),
):
    register_op(
        Op(
            f"upsample_{_mode}{_dims}d",
            "module_related_func",
            data("data_in"),
            aten=(f"upsample_{_mode}{_dims}d",),
            count=partial(_interpolation, _NEIGHBOURS[_mode]),
        )
    )


def _grid_sample_count(call: Call) -> Count:
    dims = len(call.results[0]) - 2
    neighbours = {"bilinear": 2**dims, "nearest": 0, "bicubic": 16}
    number = call.attributes.get("interpolation_mode")  # in ATen
    mode = call.attributes.get("mode", "bilinear") if number is None else list(neighbours)[number]
    return _interpolation(neighbours[mode], call)


register_spelled(
    "fold", "module_related_func", data("data_in"), modules=(nn.Fold,), aten=("col2im",), count=add_all
)
register_op(
    Op(
        "grid_sample",
        "module_related_func",
        data("data_in"),
        functions=(F.grid_sample,),
        aten=("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
        attributes={"mode": 2, "interpolation_mode": None},
        count=_grid_sample_count,
    )
)
