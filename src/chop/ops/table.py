"""The op table, and the op of a layer, function, tensor method or operator of ATen."""

from __future__ import annotations

import copyreg
import importlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import nn
from torch._ops import OpOverload

from chop.ops.base import Op
from chop.registry import Registry

S = TypeVar("S")
OPS: Registry[Op] = Registry("op")

_by_module: dict[type[nn.Module], Op] = {}
_by_class_name: dict[str, Op] = {}
"""For classes of other packages, by their qualified names."""
_by_function: dict[Callable[..., Any], Op] = {}
_by_method: dict[str, Op] = {}
_by_operator: dict[str, Op] = {}
"""By the name of an operator of ATen, without its overload."""
_by_overload: dict[OpOverload, Op] = {}
"""Filled when an overload is looked up."""


def register_op(op: Op) -> Op:
    """Add a row to the table. Each spelling belongs to one op only."""
    OPS.add(op.name, op)
    operators = {op.name, *(function.__name__ for function in op.functions), *op.methods, *op.aten}
    _spell(_by_module, op.modules, op)
    _spell(_by_class_name, op.foreign_modules, op)
    _spell(_by_function, op.functions, op)
    _spell(_by_method, op.methods, op)
    _spell(_by_operator, operators, op)
    return op


def _spell(known: dict[S, Op], spellings: Iterable[S], op: Op) -> None:
    for spelling in spellings:
        assert known.setdefault(spelling, op) is op, f"{spelling} is spelled twice"


def op_of_module(module_class: type[nn.Module]) -> Op | None:
    """Return the op of a layer class, or of a class that inherits its forward."""
    for base in module_class.__mro__:
        if not issubclass(base, nn.Module):
            continue
        op = _by_module.get(base) or _by_class_name.get(f"{base.__module__}.{base.__qualname__}")
        if op is not None:
            return op if module_class.forward is base.forward else None
    return None


def foreign_module(name: str) -> type[nn.Module] | None:
    """Return a layer class of another package by its qualified name; None if it is unknown or not installed."""
    if name not in _by_class_name:
        return None
    package, _, class_name = name.rpartition(".")
    try:
        return getattr(importlib.import_module(package), class_name, None)
    except ImportError:
        return None


def op_of_function(function: Callable[..., Any]) -> Op | None:
    """Return the op of a function or of an overload of ATen; None if it is not in the table.

    For an overload, the positions of the operands are those of its own arguments.
    """
    if not isinstance(function, OpOverload):
        return _by_function[function] if function in _by_function else None
    if function not in _by_overload and function.namespace == "aten":
        name = function._schema.name.removeprefix("aten::")
        op = _by_operator.get(name) or _by_operator.get(name.removesuffix("_"))  # `relu_` works in place
        if op is not None:
            _by_overload[function] = op.called_as(function)
    return _by_overload[function] if function in _by_overload else None


def op_of_method(name: str) -> Op | None:
    """Return the op of a tensor method; None if it is not in the table."""
    return _by_method[name] if name in _by_method else None


def function_named(name: str) -> Callable[..., Any] | None:
    """Return the function of the table with this qualified name; None if there is none."""
    if not name.startswith("aten."):
        return {qualified_name(function): function for function in _by_function}.get(name)
    operator, _, overload = name.removeprefix("aten.").partition(".")
    function = getattr(getattr(torch.ops.aten, operator, None), overload, None)
    if not isinstance(function, OpOverload) or str(function) != name:
        return None
    return function if op_of_function(function) is not None else None


def method_names() -> frozenset[str]:
    """Return the names of all tensor methods of the table."""
    return frozenset(_by_method)


def qualified_name(function: Callable[..., Any]) -> str:
    """Return module and name of a function, the same in every process; `aten.linear.default` for an overload."""
    if isinstance(function, OpOverload):
        return str(function)
    return f"{function.__module__ or 'torch'}.{function.__name__}"


def _reduced(op: Op) -> tuple[Any, ...]:
    return _restored, (op.name, op.overload)  # by name, because functions of the row cannot be pickled


def _restored(name: str, overload: str) -> Op:
    function = function_named(overload) if overload else None
    found = OPS[name] if function is None else op_of_function(function)
    assert found is not None, f"{overload} is not in the op table"
    return found


copyreg.pickle(Op, _reduced)
