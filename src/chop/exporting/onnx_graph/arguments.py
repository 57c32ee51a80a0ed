"""The arguments of a call by name, for every spelling: layer, function, tensor method or operator of ATen."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload


def named_arguments(
    target: Callable[..., Any] | str, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a function or tensor method of `op` by name, without defaults that are not given."""
    if isinstance(target, OpOverload):
        return _bound(target._schema, args) | dict(kwargs)
    if not isinstance(target, str):
        try:
            signature = inspect.signature(target)
            if all(each.kind is not each.VAR_POSITIONAL for each in signature.parameters.values()):
                return dict(signature.bind_partial(*args, **kwargs).arguments)
        except (TypeError, ValueError):  # a function without a signature, as most of torch
            pass
    name = target if isinstance(target, str) else target.__name__
    for schema in next(filter(None, map(_schemas, (name, name.removesuffix("_"), f"linalg_{name}", op))), []):
        collected = _collected(schema, args)
        if _accepts(schema, collected, kwargs):
            return _bound(schema, collected) | dict(kwargs)
    return dict(kwargs)


def _schemas(name: str) -> list[Any]:
    found = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return [schema for schema in found if not any(each.is_out for each in schema.arguments)]


def _collected(schema: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments with separate integers as a list: `view(2, 3)` is `view([2, 3])`."""
    last = max((i for i, each in enumerate(schema.arguments) if not each.kwarg_only), default=0)
    is_list = "List[int]" in str(schema.arguments[last].type)
    if is_list and last < len(args) - 1 and not isinstance(args[last], list | tuple):
        return [*args[:last], list(args[last:])]
    return args


def _accepts(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    names = {argument.name for argument in schema.arguments}
    unknown = {name for name, value in kwargs.items() if name not in names and value not in (None, False)}
    if len(args) > len(schema.arguments) or unknown:
        return False
    required = [a.name for a in schema.arguments[len(args) :] if not a.has_default_value() and not a.kwarg_only]
    return set(required) <= set(kwargs) and all(
        _fits(argument.name, str(argument.type), value)
        for argument, value in zip(schema.arguments, args, strict=False)
    )


def _fits(name: str, kind: str, value: Any) -> bool:
    """Whether a value may be of a type of a schema; values that are not plain are tensors."""
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple | torch.dtype | torch.device)
    if value is None:
        return kind.startswith("Optional")
    if name in ("dtype", "layout", "device", "memory_format"):  # schemas call them integers
        return not isinstance(value, int | list | tuple)
    kind = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional") else kind
    if kind == "Tensor":
        return not plain
    if kind.startswith("List"):
        return isinstance(value, list | tuple | int)
    if kind == "number":
        return isinstance(value, int | float)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return not isinstance(value, list | tuple | float | str)
    return plain


def _bound(schema: Any, args: Sequence[Any]) -> dict[str, Any]:
    return {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)}
