"""Ops that combine the elements of a tensor: sums, extrema, norms, running sums, sorting."""

from __future__ import annotations

import torch

from chop.ops.base import Call, Count, Op, Operand, numel
from chop.ops.spellings import add_all, data, spelled
from chop.ops.table import register_op


def _mean_count(call: Call) -> Count:
    return Count(adds=numel(call.operands["data_in_0"]), multiplies=numel(call.results[0]))


register_op(Op("mean", "builtin_func", operands=data("data_in"), **spelled("mean", "nanmean"), count=_mean_count))
for _names in (("sum", "nansum"), ("amax",), ("amin",), ("cumsum",), ("diff",)):
    register_op(Op(_names[0], "builtin_func", operands=data("data_in"), **spelled(*_names), count=add_all))
for _name in ("max", "min"):  # of all elements, along a dimension, or of two tensors
    _operands = data("data_in", "input", "other")
    register_op(Op(_name, "builtin_func", operands=_operands, **spelled(_name), count=add_all))

# Never quantised: the results are indices, or the op only orders its elements.
for _name in ("argmax", "argmin", "cummax", "cummin", "topk", "sort", "argsort", "kthvalue", "median", "mode"):
    register_op(Op(_name, "builtin_func", operands=data(None), **spelled(_name), count=add_all))
for _name in ("any", "all", "count_nonzero", "bincount"):
    register_op(Op(_name, "builtin_func", operands=data(None), **spelled(_name), count=add_all))


def _scatter_count(call: Call) -> Count:
    """Count an addition per element of the source."""
    return Count(adds=numel(call.operands.get("data_in_1", ())))


for _name, _position in (("scatter_add", 3), ("scatter_reduce", 3), ("index_add", 3)):
    _operands = (*data(None), Operand("data_in_1", None, _position, ("src", "source")))
    register_op(Op(_name, "builtin_func", operands=_operands, **spelled(_name), count=_scatter_count))


def _moments_count(call: Call) -> Count:
    """Count an addition for the mean, a subtraction, a square and an addition for the variance per element."""
    n = numel(call.operands["data_in_0"])
    return Count(adds=3 * n, multiplies=n + numel(call.results[0]))


def _products_count(call: Call) -> Count:
    return Count(multiplies=numel(call.operands["data_in_0"]))


def _norm_count(call: Call) -> Count:
    """Count a power and an addition per element, and a root per result."""
    n = numel(call.operands["data_in_0"])
    return Count(adds=n, multiplies=n + numel(call.results[0]))


# Never quantised: powers, roots, exponentials and long products of their input.
for _names, _count in (
    (("var", "var_mean"), _moments_count),
    (("std", "std_mean"), _moments_count),
    (("prod",), _products_count),
    (("cumprod",), _products_count),
    (("logsumexp",), _norm_count),
):
    register_op(Op(_names[0], "builtin_func", operands=data(None), **spelled(*_names), count=_count))
_NORMS = (torch.linalg.norm, torch.linalg.vector_norm)
register_op(Op("norm", "builtin_func", operands=data(None), **spelled("norm", others=_NORMS), count=_norm_count))
