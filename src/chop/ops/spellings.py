"""What the rows of the op table share: spellings found by name, common operands and counts."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.ops.base import Call, Count, Operand, Role, numel

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(torch.relu))


class Spellings(TypedDict):
    """The functions and tensor methods of an op."""

    functions: tuple[Callable[..., Any], ...]
    methods: tuple[str, ...]


def spelled(*names: str, others: tuple[Callable[..., Any], ...] = ()) -> Spellings:
    """Return the functions of `torch` and `torch.nn.functional` and the tensor methods with these names.

    This includes the in-place variants: `relu` stands for `F.relu`, `F.relu_`, `torch.relu`, `torch.relu_`,
    `.relu()` and `.relu_()`. `others` are functions from elsewhere, such as `operator.add`.
    """
    every = [variant for name in names for variant in (name, f"{name}_")]
    found = [getattr(module, name, None) for module in (F, torch) for name in every]
    functions = [function for function in found if isinstance(function, _FUNCTIONS)]
    methods = tuple(name for name in every if callable(getattr(Tensor, name, None)))
    return {"functions": (*dict.fromkeys(functions), *others), "methods": methods}


def data(role: Role | None, *keywords: str) -> tuple[Operand, ...]:
    """Return operands for the first arguments; without `keywords`, for a single one called `input`."""
    return tuple(Operand(f"data_in_{i}", role, i, (keyword,)) for i, keyword in enumerate(keywords or ("input",)))


def add_each(call: Call) -> Count:
    """Count an addition or comparison per element of the result."""
    return Count(adds=numel(call.results[0]))


def multiply_each(call: Call) -> Count:
    """Count a multiplication, or a function such as the exponential, per element of the result."""
    return Count(multiplies=numel(call.results[0]))


def add_all(call: Call) -> Count:
    """Count an addition or comparison per element of the input."""
    return Count(adds=numel(call.operands["data_in_0"]))
