"""States of reductions: dataclasses of tensors, converted to named tensors for a file and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, Self, TypeVar, get_args

import torch
from torch import Tensor

from chop.options import type_hints


class State(Protocol):
    """What a reduction keeps for each group of values. States are immutable; `merged` returns a new one."""

    def merged(self, other: Self) -> Self:
        """Return the state of both together."""

    def check(self, count: Tensor) -> None:
        """Raise ValueError if this state, read from a file, contradicts the number of values per group."""


T = TypeVar("T")


def check_tensor(tensor: Tensor, dtype: torch.dtype | None, *shape: int | None) -> None:
    """Raise ValueError if a tensor has another dtype (None: any floating-point one) or shape (None: any size)."""
    wrong_dtype = not tensor.is_floating_point() if dtype is None else tensor.dtype != dtype
    sizes = zip(tensor.shape, shape, strict=False)
    if wrong_dtype or tensor.ndim != len(shape) or any(b is not None and a != b for a, b in sizes):
        wanted = f"{dtype or 'floating-point numbers'} of shape {list(shape)}"
        raise ValueError(f"expected {wanted}, got {tensor.dtype} of shape {list(tensor.shape)}")


def to_tensors(state: Any, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of a state by field path, such as `moments.count`; fields that are None are left out."""
    found: dict[str, Tensor] = {}
    for name in _field_names(state):
        value, path = getattr(state, name), f"{prefix}{name}"
        if isinstance(value, Tensor):
            found[path] = value
        elif isinstance(value, tuple):
            found |= {f"{path}.{i}": tensor for i, tensor in enumerate(value)}
        elif is_dataclass(value):
            found |= to_tensors(value, f"{path}.")
        elif value is not None:
            found[path] = torch.as_tensor(value)
    return found


def find_component(state: Any, kind: type[T]) -> T | None:
    """Return the state, or the first of its fields at any depth, that is of a class; None if there is none."""
    if isinstance(state, kind):
        return state
    inner = (getattr(state, name) for name in _field_names(state))
    parts = (find_component(value, kind) for value in inner if is_dataclass(value))
    return next((part for part in parts if part is not None), None)


def _field_names(state: Any) -> tuple[str, ...]:
    kind = type(state)
    if kind not in _names:  # `fields` takes longer than all the rest
        _names[kind] = tuple(f.name for f in fields(state))
    return _names[kind]


_names: dict[type, tuple[str, ...]] = {}


def from_tensors(cls: type[T], tensors: Mapping[str, Tensor], prefix: str = "") -> T:
    """Return the state of class `cls` with these tensors."""
    return cls(**{f.name: _read(type_hints(cls)[f.name], tensors, f"{prefix}{f.name}") for f in fields(cls)})  # type: ignore[arg-type]


def join_groups(kind: type[T], states: Sequence[Mapping[str, Tensor]]) -> T:
    """Return one state with the groups of several, given as named tensors of the same shapes: one row per group."""
    joined = {
        path: torch.cat([each[path] for each in states]) if first.ndim else first
        for path, first in states[0].items()
    }
    return from_tensors(kind, joined)


def _read(hint: Any, tensors: Mapping[str, Tensor], path: str) -> Any:
    inner = {name for name in tensors if name.startswith(f"{path}.")}
    kinds = [kind for kind in get_args(hint) if is_dataclass(kind)]
    if hint is Tensor or hint is bool:
        if path not in tensors:
            raise ValueError(f"'{path}' is missing")
        return tensors[path] if hint is Tensor else bool(tensors[path].any())
    if is_dataclass(hint):
        kinds = [hint]
    elif not kinds:
        return tuple(tensors[f"{path}.{i}"] for i in range(len(inner)))
    elif not inner:
        return None
    return from_tensors(kinds[0], tensors, f"{path}.")  # type: ignore[arg-type]
