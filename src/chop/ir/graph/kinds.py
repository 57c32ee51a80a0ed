"""Kinds of values and modules: whoever computes without data gets the same result from two of the same kind."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn

CONSTANTS = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
_LEFT_OUT = ("_modules", "_non_persistent_buffers_set")


class UnknownKindError(Exception):
    """A value, such as an object with a state, that cannot be compared with others."""


def kind_of(value: Any, tensors: list[Tensor]) -> Hashable:
    """Return the kind of nested arguments, and add their tensors to `tensors`.

    Tensors of a kind have the same shape, strides and dtype, and are the same tensor in the same places.
    """
    if isinstance(value, Tensor):
        if value.layout is not torch.strided:
            raise UnknownKindError(str(value.layout))
        position = next((i for i, tensor in enumerate(tensors) if tensor is value), len(tensors))
        tensors.append(value)
        memory = (value.shape, value.stride(), value.storage_offset())
        return position, type(value), value.dtype, value.device, value.requires_grad, memory
    if type(value) in CONSTANTS:
        return type(value), value
    if type(value) is slice:
        return slice, *(kind_of(part, tensors) for part in (value.start, value.stop, value.step))
    if isinstance(value, list | tuple):
        return type(value), *(kind_of(part, tensors) for part in value)
    if isinstance(value, dict):
        return type(value), *((key, kind_of(part, tensors)) for key, part in value.items())
    raise UnknownKindError(type(value).__name__)


def kind_of_layer(layer: nn.Module) -> Hashable:
    """Return what modules without hooks share if their attributes, tensors and parts are of the same kinds."""
    tensors: list[Tensor] = []
    return tuple(
        (path, type(part), kind_of(_attributes(part), tensors))
        for path, part in layer.named_modules(remove_duplicate=False)
    )


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {name: each for name, each in vars(module).items() if name not in _LEFT_OUT}
