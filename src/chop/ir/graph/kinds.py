"""Kinds of values and modules: whoever computes without data gets the same result from two of the same kind."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

CONSTANTS = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
MODULE_STATE = frozenset(vars(nn.Module()))
"""The attributes that every module has."""


class UnknownKindError(Exception):
    """A value, such as an object with a state, that cannot be compared with others."""


def kind_of(value: Any, tensors: list[Tensor]) -> Hashable:
    """Return the kind of nested arguments, and add their tensors to `tensors`.

    Tensors of a kind have the same shape, strides and dtype, and are the same tensor in the same places.
    """
    if isinstance(value, Tensor):
        position = next((i for i, tensor in enumerate(tensors) if tensor is value), len(tensors))
        tensors.append(value)
        return position, kind_of_tensor(value)
    if isinstance(value, torch.SymInt):
        return torch.SymInt, value.node.expr
    if type(value) in CONSTANTS:
        return type(value), value
    if type(value) is slice:
        return slice, *(kind_of(part, tensors) for part in (value.start, value.stop, value.step))
    if isinstance(value, list | tuple):
        return type(value), *(kind_of(part, tensors) for part in value)
    if isinstance(value, dict):
        return type(value), *((key, kind_of(part, tensors)) for key, part in value.items())
    raise UnknownKindError(type(value).__name__)


def kind_of_tensor(tensor: Tensor) -> Hashable:
    """Return the shape, strides and type of a tensor; sizes may be symbols."""
    if tensor.layout is not torch.strided:
        raise UnknownKindError(str(tensor.layout))
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    plain = tuple(size.node.expr if isinstance(size, torch.SymInt) else size for size in sizes)
    return type(tensor), tensor.dtype, tensor.device, tensor.requires_grad, tensor.dim(), plain


def kind_of_module(module: nn.Module) -> Hashable:
    """Return what modules with the same parts, tensors of the same kind and no hooks have in common.

    Their attributes have the same names, but may have different values.
    """
    positions: dict[int, int] = {}
    parts: list[Hashable] = []
    for path, part in module.named_modules(remove_duplicate=False):
        state = vars(part)
        if any(name.endswith("_hooks") and state.get(name) for name in MODULE_STATE):
            raise UnknownKindError("hooks")
        tensors = tuple(
            (
                name,
                value
                if value is None
                else (positions.setdefault(id(value), len(positions)), kind_of_tensor(value)),
            )
            for name, value in (*part._parameters.items(), *part._buffers.items())
        )
        position = positions.setdefault(id(part), len(positions))
        parts.append((path, type(part), position, part.training, frozenset(state), tensors))
    return tuple(parts)


def kind_of_layer(layer: nn.Module) -> Hashable:
    """Return what modules of the same kind whose attributes have the same values have in common."""
    attributes = [
        {name: value for name, value in vars(part).items() if name not in MODULE_STATE} for part in layer.modules()
    ]
    return kind_of_module(layer), kind_of(attributes, [])
