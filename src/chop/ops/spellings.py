"""What the rows of the op table share: spellings found by name, common operands and counts."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.ops.base import Call, Count, MaseType, Op, Operand, Role, numel
from chop.ops.table import register_op

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(torch.relu))


def register_spelled(
    name: str,
    mase_type: MaseType,
    operands: tuple[Operand, ...],
    *,
    other_names: Sequence[str] = (),
    **fields: Any,
) -> None:
    """Add a row to the table for the functions and tensor methods of torch with this name, or one of `other_names`.

    This includes the in-place variants: `relu` stands for `F.relu`, `F.relu_`, `torch.relu`, `torch.relu_`,
    `.relu()` and `.relu_()`. `fields` are those of `Op`; its `functions` are from elsewhere, as `operator.add`.
    """
    op = Op(name, mase_type, operands, **fields)
    spellings = [spelling for each in (name, *other_names) for spelling in (each, f"{each}_")]
    found = [getattr(module, spelling, None) for module in (F, torch) for spelling in spellings]
    functions = [function for function in found if isinstance(function, _FUNCTIONS)]
    methods = tuple(spelling for spelling in spellings if callable(getattr(Tensor, spelling, None)))
    register_op(replace(op, functions=(*dict.fromkeys(functions), *op.functions), methods=methods))


def data(role: Role | None, *keywords: str) -> tuple[Operand, ...]:
    """Return operands for the first arguments; without `keywords`, for a single one called `input`."""
    return tuple(Operand(f"data_in_{i}", role, i, (keyword,)) for i, keyword in enumerate(keywords or ("input",)))


def add_each(call: Call) -> Count:
    """Count an addition or comparison per element of the result."""
    return Count(adds=numel(call.results[0]))


def multiply_each(call: Call) -> Count:
    """Count a multiplication, or a function such as the exponential, per element of the result."""
    return Count(multiplies=numel(call.results[0]))


def multiply_and_add_each(call: Call) -> Count:
    """Count a multiplication, or a function, and an addition per element of the result."""
    return add_each(call) + multiply_each(call)


def add_all(call: Call) -> Count:
    """Count an addition or comparison per element of the input."""
    return Count(adds=numel(call.operands["data_in_0"]))
