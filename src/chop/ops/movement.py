"""Ops that move data or read its shape: never quantised, and without arithmetic."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from chop.ops.base import Op, Operand
from chop.ops.table import register_op

_DATA = (Operand("data_in_0", None, 0, ("input",)),)

_METHODS = (
    *("view", "reshape", "size", "dim", "numel", "flatten", "unflatten", "permute", "transpose", "t", "contiguous"),
    *("squeeze", "unsqueeze", "expand", "expand_as", "repeat", "view_as", "reshape_as", "narrow", "select"),
    *("chunk", "split", "unbind", "clone", "detach", "to", "float", "type_as"),
)
_MODULES: dict[str, type[nn.Module]] = {"flatten": nn.Flatten, "unflatten": nn.Unflatten}


def _register_movement(name: str) -> None:
    function: Callable[..., Any] | None = getattr(torch, name, None)
    is_function = callable(function) and not isinstance(function, torch.dtype | type)
    register_op(
        Op(
            name,
            "implicit_func",
            operands=_DATA,
            modules=(_MODULES[name],) if name in _MODULES else (),
            functions=(function,) if is_function and function is not None else (),
            methods=(name,),
        )
    )


for _name in _METHODS:
    _register_movement(_name)

register_op(Op("identity", "implicit_func", operands=_DATA, modules=(nn.Identity,)))
register_op(Op("getitem", "implicit_func", operands=_DATA, functions=(operator.getitem,)))
register_op(Op("getattr", "implicit_func", operands=_DATA, functions=(builtins.getattr,)))
register_op(
    Op(
        "stack",
        "implicit_func",
        operands=(Operand("data_in_0", None, 0, ("tensors",), variadic=True),),
        functions=(torch.stack,),
    )
)
