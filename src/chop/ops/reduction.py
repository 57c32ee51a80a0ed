"""Ops that combine the elements of a tensor: sums, extrema, norms, running sums, sorting."""

from __future__ import annotations

import torch

from chop.ops.base import Call, Count, Operand, numel
from chop.ops.spellings import add_all, data, register_spelled


def _mean_count(call: Call) -> Count:
    return Count(adds=numel(call.operands["data_in_0"]), multiplies=numel(call.results[0]))


register_spelled("mean", "builtin_func", data("data_in"), other_names=("nanmean",), count=_mean_count)
register_spelled("sum", "builtin_func", data("data_in"), other_names=("nansum",), count=add_all)
for _name in ("amax", "amin", "cumsum", "diff"):
    register_spelled(_name, "builtin_func", data("data_in"), count=add_all)
for _name in ("max", "min"):  # of all elements, along a dimension, or of two tensors
    _operands = data("data_in", "input", "other")
    register_spelled(_name, "builtin_func", _operands, count=add_all)

# Never quantised: the results are indices, or the op only orders its elements.
for _name in ("argmax", "argmin", "cummax", "cummin", "topk", "sort", "argsort", "kthvalue", "median", "mode"):
    register_spelled(_name, "builtin_func", data(None), count=add_all)
for _name in ("any", "all", "count_nonzero", "bincount"):
    register_spelled(_name, "builtin_func", data(None), count=add_all)


def _scatter_count(call: Call) -> Count:
    """Count an addition per element of the source."""
    return Count(adds=numel(call.operands.get("data_in_1", ())))


for _name in ("scatter_add", "scatter_reduce", "index_add"):
    _operands = (*data(None), Operand("data_in_1", None, 3, ("src", "source")))
    register_spelled(_name, "builtin_func", _operands, count=_scatter_count)


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
register_spelled("var", "builtin_func", data(None), other_names=("var_mean",), count=_moments_count)
register_spelled("std", "builtin_func", data(None), other_names=("std_mean",), count=_moments_count)
register_spelled("prod", "builtin_func", data(None), count=_products_count)
register_spelled("cumprod", "builtin_func", data(None), count=_products_count)
register_spelled("logsumexp", "builtin_func", data(None), count=_norm_count)
_NORMS = (torch.linalg.norm, torch.linalg.vector_norm)
register_spelled("norm", "builtin_func", data(None), functions=_NORMS, count=_norm_count)
