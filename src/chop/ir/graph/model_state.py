"""What a model holds, noted before runs that must leave the model as it was."""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module

Attribute = tuple[str, str]
"""The path of a module, and the name of an attribute, buffer, parameter or submodule."""

CONSTANTS = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
_REGISTERED = ("_parameters", "_buffers", "_modules")
_LIBRARIES = sys.stdlib_module_names | {"torch"}
"""Packages whose objects, other than containers, tensors and modules, are not looked into."""


def join(path: str, name: str) -> str:
    """Return the path of an attribute of a module."""
    return f"{path}.{name}" if path else name


class _Container(NamedTuple):
    """A dict, list, set or deque, and what was in it."""

    now: Any
    before: Any
    owner: Attribute
    """The attribute that it is in; the name is '' if its keys are the names of attributes."""

    def is_same(self) -> bool:
        return (
            len(self.now) == len(self.before)
            and all(map(operator.is_, self.now, self.before))
            and (not isinstance(self.now, dict) or all(map(operator.is_, self.now.values(), self.before.values())))
        )

    def changes(self) -> set[Attribute]:
        """Return the attributes that differ."""
        path, name = self.owner
        if self.is_same():
            return set()
        if name:
            return {self.owner}
        missing = object()
        names = self.now.keys() | self.before.keys()
        return {(path, key) for key in names if self.now.get(key, missing) is not self.before.get(key, missing)}

    def restore(self) -> None:
        if not self.is_same():
            self.now.clear()
            put = self.now.extend if isinstance(self.now, list | deque) else self.now.update
            put(self.before)


class _Values(NamedTuple):
    """A tensor, an array of NumPy or a generator of random numbers, and what it held."""

    now: Any
    before: Any
    """None for a parameter whose values no forward changes."""
    memory: Any
    """The memory of a tensor, even if the tensor gets another one; None for other objects."""
    owner: Attribute

    @staticmethod
    def of(value: Tensor | np.ndarray[Any, Any] | torch.Generator, owner: Attribute, is_fixed: bool) -> _Values:
        if isinstance(value, Tensor):
            memory = value.detach()
            return _Values(value, None if is_fixed else memory.clone(), memory, owner)
        return _Values(
            value, value.get_state() if isinstance(value, torch.Generator) else value.copy(), None, owner
        )

    def has_its_memory(self) -> bool:
        now, memory = self.now, self.memory
        return memory is None or (now.data_ptr() == memory.data_ptr() and now.shape == memory.shape)

    def changes(self) -> set[Attribute]:
        """Return the attribute, if the values differ. They are compared as bytes, in which NaN equals itself."""
        if self.before is None:
            return set()
        if isinstance(self.now, np.ndarray):
            is_same = self.now.tobytes() == self.before.tobytes()
        elif isinstance(self.now, torch.Generator):
            is_same = self.now.get_state().equal(self.before)
        else:  # batch norm writes without changing `_version`
            now, before = (tensor.reshape(-1).view(torch.uint8) for tensor in (self.memory, self.before))
            is_same = self.has_its_memory() and now.equal(before)
        return set() if is_same else {self.owner}

    def restore(self) -> None:
        if not self.has_its_memory():
            self.now.data = self.memory
        if self.changes() and isinstance(self.now, torch.Generator):
            self.now.set_state(self.before)
        elif self.changes():
            (self.now if self.memory is None else self.memory)[...] = self.before


class ModelState:
    """The attributes of all modules of a model, the contents of containers in them, and the values of tensors."""

    def __init__(self, model: nn.Module, parts: Collection[nn.Module] | None = None) -> None:
        """Note what `model` holds now; of modules that are not among `parts`, if these are given, only tensors."""
        modules = list(model.named_modules())
        self.kinds = [(module, type(module)) for _, module in modules]
        self.containers: dict[int, _Container] = {}
        self.values: dict[int, _Values] = {}
        self.names = {(path, name) for path, module in modules for name in vars(module)}
        self.buffers = {(path, name) for path, module in modules for name in module._buffers}
        fixed: list[tuple[Attribute, Tensor | None]] = []
        for path, module in modules:
            is_fixed = is_known(module) and getattr(module, "max_norm", None) is None
            parameters = [((path, name), each) for name, each in module._parameters.items()]
            fixed += parameters if is_fixed else []
            buffers = [((path, name), each) for name, each in module._buffers.items()]
            for owner, tensor in buffers + ([] if is_fixed else parameters):
                self._note(tensor, owner)
        for owner, tensor in fixed:
            self._note(tensor, owner, is_fixed=True)
        for path, module in modules:
            if parts is not None and module not in parts:
                continue
            held = vars(module)
            for container in (held, *(held[name] for name in _REGISTERED)):
                self.containers[id(container)] = _Container(container, dict(container), (path, ""))
            for name, value in held.items():
                if name not in _REGISTERED and type(value) not in CONSTANTS:
                    self._note(value, (path, name))

    def _note(self, value: Any, owner: Attribute, *, is_fixed: bool = False) -> None:
        """Note a value and what is in it; the values of `is_fixed` parameters do not change."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if id(value) in self.containers or id(value) in self.values:
                continue
            if isinstance(value, Tensor | np.ndarray | torch.Generator):
                if not isinstance(value, Tensor) or (type(value) in (Tensor, nn.Parameter) and is_plain(value)):
                    self.values[id(value)] = _Values.of(value, owner, is_fixed)
            elif isinstance(value, tuple):
                waiting += value
            elif isinstance(value, dict | list | set | deque):
                before = dict(value) if isinstance(value, dict) else list(value)
                self.containers[id(value)] = _Container(value, before, owner)
                waiting += value.values() if isinstance(value, dict) else value
            elif isinstance(value, nn.Module) or (
                hasattr(value, "__dict__") and type(value).__module__.partition(".")[0] not in _LIBRARIES
            ):
                waiting.append(vars(value))

    def changes(self) -> set[Attribute]:
        """Return the attributes that differ from what was noted."""
        return self.replaced().union(*(each.changes() for each in self.values.values()))

    def replaced(self) -> set[Attribute]:
        """Return the attributes that hold another object; no values of tensors are compared."""
        others = (each.changes() for each in self.values.values() if each.memory is None)
        return set().union(*(each.changes() for each in self.containers.values()), *others)

    def restore(self) -> None:
        """Put everything back that differs."""
        for module, kind in self.kinds:
            if type(module) is not kind:
                module.__class__ = kind
        with torch.no_grad():
            for container in self.containers.values():
                container.restore()
            for values in self.values.values():
                values.restore()


@contextmanager
def unchanged(model: nn.Module, parts: Collection[nn.Module] | None = None) -> Iterator[ModelState]:
    """Leave a model as it was: attributes, containers in them, hooks, modes, and values of tensors."""
    state = ModelState(model, parts)
    try:
        yield state
    finally:
        state.restore()


def is_known(module: nn.Module) -> bool:
    """Whether the op table says what a layer computes."""
    return op_of_module(module.base_class if isinstance(module, QuantizedLayer) else type(module)) is not None


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has values that can be copied and compared."""
    return tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_quantized
