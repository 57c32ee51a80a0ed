"""What a model holds, noted before runs that must leave the model as it was."""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from chop.ir.graph.kinds import CONSTANTS
from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module

Attribute = tuple[str, str]
"""The path of a module, and the name of an attribute, buffer, parameter or submodule."""


def join(path: str, name: str) -> str:
    """Return the path of an attribute of a module."""
    return f"{path}.{name}" if path else name


_MAX_NUMEL_JOINED = 2**16
"""The size up to which tensors are copied and compared together, which takes less time than one after the other."""
_REGISTERED = ("_parameters", "_buffers", "_modules")
_LIBRARIES = sys.stdlib_module_names | {"torch"}
"""Packages whose objects, other than containers, tensors and modules, are not looked into."""


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
        self.now.clear()
        put = self.now.extend if isinstance(self.now, list | deque) else self.now.update
        put(self.before)


class _Values(NamedTuple):
    """Tensors of the same type, and the values that they had."""

    tensors: list[Tensor]
    memory: list[Tensor]
    """The same memory, even if the tensors get another one."""
    before: Tensor

    def are_same(self) -> bool:
        """Compare bytes, in which NaN equals itself; batch norm writes without changing `_version`."""
        values, before = (each.view(torch.uint8) for each in (_joined(self.memory), self.before))
        return all(map(_shares_memory, self.tensors, self.memory)) and values.equal(before)

    def each(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Return each tensor with its memory and its values."""
        values = self.before.split([each.numel() for each in self.memory])
        return zip(self.tensors, self.memory, values, strict=True)

    def restore(self) -> None:
        for tensor, memory, value in self.each():
            if not _shares_memory(tensor, memory):
                tensor.data = memory
            memory.copy_(value.view(memory.shape))


def _shares_memory(tensor: Tensor, other: Tensor) -> bool:
    return tensor.data_ptr() == other.data_ptr() and tensor.shape == other.shape


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """Return the values of all tensors, of a single one without copying them."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


class _Slots(NamedTuple):
    """The attributes of a module in `__slots__`."""

    module: nn.Module
    before: dict[str, Any]
    path: str

    @staticmethod
    def of(module: nn.Module, path: str) -> _Slots:
        names = (name for kind in type(module).__mro__ for name in getattr(kind, "__slots__", ()))
        return _Slots(module, {name: getattr(module, name) for name in names if hasattr(module, name)}, path)

    def changes(self) -> set[Attribute]:
        """Return the attributes that differ."""
        now = self.before.items()
        return {(self.path, name) for name, value in now if getattr(self.module, name, None) is not value}

    def restore(self) -> None:
        for _, name in self.changes():
            setattr(self.module, name, self.before[name])


class _Other(NamedTuple):
    """An array of NumPy or a generator of random numbers, and what it held."""

    now: np.ndarray[Any, Any] | torch.Generator
    before: Any
    owner: Attribute

    @staticmethod
    def of(value: np.ndarray[Any, Any] | torch.Generator, owner: Attribute) -> _Other:
        return _Other(value, value.get_state() if isinstance(value, torch.Generator) else value.copy(), owner)

    def changes(self) -> set[Attribute]:
        """Return the attribute that it is in, if it differs."""
        if isinstance(self.now, torch.Generator):
            return set() if self.now.get_state().equal(self.before) else {self.owner}
        return set() if self.now.tobytes() == self.before.tobytes() else {self.owner}

    def restore(self) -> None:
        if isinstance(self.now, torch.Generator):
            self.now.set_state(self.before)
        else:
            self.now[...] = self.before


class ModelState:
    """The attributes of all modules of a model, the contents of containers in them, and the values of tensors."""

    def __init__(self, model: nn.Module, parts: Collection[nn.Module] | None = None) -> None:
        """Note what `model` holds now; of modules that are not among `parts`, if these are given, only tensors."""
        modules = list(model.named_modules())
        self.kinds = [(module, type(module)) for _, module in modules]
        self.slots = [_Slots.of(module, path) for path, module in modules]
        self.containers: dict[int, _Container] = {}
        self.owners: dict[int, Attribute] = {}
        """The attribute that a tensor is in."""
        self._tensors: dict[int, Tensor] = {}
        self.others: list[_Other] = []
        self.names = {(path, name) for path, module in modules for name in vars(module)}
        self.buffers = {(path, name) for path, module in modules for name in module._buffers}
        for path, module in modules:
            for name, tensor in _writable(module):
                self._note(tensor, (path, name))
        self.weights = [
            (weight, weight.detach())
            for weight in model.parameters()
            if id(weight) not in self._tensors and type(weight) is nn.Parameter and is_plain(weight)
        ]
        """Parameters whose values no forward changes, and their memory."""
        registered = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
        for path, module in modules:
            if parts is None or module in parts:
                self._note_attributes(path, module, registered)
        with torch.no_grad():
            self.values = [
                _Values(each, [t.detach() for t in each], _joined(each).clone()) for each in self._alike()
            ]

    def _note_attributes(self, path: str, module: nn.Module, registered: set[int]) -> None:
        held = vars(module)
        for container in (held, *(held[name] for name in _REGISTERED)):
            self.containers[id(container)] = _Container(container, dict(container), (path, ""))
        for name, value in held.items():
            if name not in _REGISTERED and type(value) not in CONSTANTS:
                self._note(value, (path, name), registered)

    def _note(self, value: Any, owner: Attribute, known: set[int] | frozenset[int] = frozenset()) -> None:
        """Note a value and what is in it; `known` tensors are left out."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if id(value) in self.containers:
                continue
            if isinstance(value, Tensor):
                if id(value) not in known and type(value) in (Tensor, nn.Parameter) and is_plain(value):
                    self._tensors[id(value)] = value
                    self.owners.setdefault(id(value), owner)
            elif isinstance(value, np.ndarray | torch.Generator):
                self.others.append(_Other.of(value, owner))
            elif isinstance(value, tuple):
                waiting += value
            elif isinstance(value, dict | list | set | deque):
                before = dict(value) if isinstance(value, dict) else list(value)
                self.containers[id(value)] = _Container(value, before, owner)
                waiting += value.values() if isinstance(value, dict) else value
            elif _has_attributes(value):
                waiting.append(vars(value))

    def _alike(self) -> list[list[Tensor]]:
        """Return the tensors, grouped if they can be joined."""
        alike: dict[object, list[Tensor]] = {}
        for tensor in self._tensors.values():
            alone = id(tensor) if tensor.numel() > _MAX_NUMEL_JOINED else None
            alike.setdefault((tensor.dtype, tensor.device, alone), []).append(tensor)
        return list(alike.values())

    def changes(self) -> set[Attribute]:
        """Return the attributes that differ from what was noted."""
        with torch.no_grad():
            return self.replaced() | {
                self.owners[id(tensor)]
                for values in self.values
                if not values.are_same()
                for tensor, memory, before in values.each()
                if not _Values([tensor], [memory], before).are_same()
            }

    def replaced(self) -> set[Attribute]:
        """Return the attributes that hold another object; no values of tensors are compared."""
        changes = [each.changes() for each in self.containers.values()]
        changes += [each.changes() for each in self.slots] + [each.changes() for each in self.others]
        return set().union(*changes)

    def restore(self) -> None:
        """Put everything back that differs."""
        for module, kind in self.kinds:
            if type(module) is not kind:
                module.__class__ = kind
        for slots in self.slots:
            slots.restore()
        for other in self.others:
            other.restore()
        for container in self.containers.values():
            if not container.is_same():
                container.restore()
        with torch.no_grad():
            for values in self.values:
                if not values.are_same():
                    values.restore()
            for weight, memory in self.weights:
                if not _shares_memory(weight, memory):
                    weight.data = memory


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


def _writable(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a run may overwrite: buffers, and the parameters of layers that are not known ops."""
    leaves_alone = is_known(module) and getattr(module, "max_norm", None) is None
    for named in (module._buffers, {} if leaves_alone else module._parameters):
        for name, tensor in named.items():
            if tensor is not None:
                yield name, tensor


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has values that can be copied and compared."""
    return tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_quantized


def _has_attributes(value: Any) -> bool:
    """Whether a value is a module, or an object of the user's own that may have a state."""
    if isinstance(value, nn.Module):
        return True
    return hasattr(value, "__dict__") and type(value).__module__.partition(".")[0] not in _LIBRARIES
