"""Blocks that a model repeats, such as the layers of a transformer, of which only the first ones run.

A later block of the same structure, called with inputs of the same shapes, computes the same with its own weights.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.kinds import CONSTANTS, MODULE_STATE, UnknownKindError, kind_of, kind_of_module

_Attribute = tuple[str, str]
"""The path of a module in a block, and the name of an attribute."""


class Recorder(Protocol):
    """What is recorded of the blocks that run, and done in place of those that do not."""

    runs: int
    """The number of blocks of a kind that run."""

    def start(self, inputs: list[Tensor]) -> Any:
        """Return what is noted before a block runs."""

    def end(self, path: str, start: Any, outputs: list[Tensor]) -> Any:
        """Return what was recorded of a block."""

    def repeat(self, recorded: Any, path: str, inputs: list[Tensor], outputs: list[Tensor]) -> list[Tensor]:
        """Return tensors like the `outputs` of the recorded block, for a block that does not run."""


def empty_like(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors of the same sizes and types with memory of their own."""
    return [
        torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=each.device) for each in tensors
    ]


@contextmanager
def repeated_blocks(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Let only the first blocks of each kind run, while the model runs on tensors without data."""
    with ExitStack() as stack:
        for blocks in _repeated(model, recorder.runs):
            stack.enter_context(_Blocks(blocks, recorder).installed())
        yield


def _repeated(module: nn.Module, runs: int, path: str = "") -> Iterator[dict[str, nn.Module]]:
    """Yield the blocks of the same structure in each list of modules, by path; the outermost ones."""
    children = [(f"{path}.{name}" if path else name, child) for name, child in module.named_children()]
    groups: dict[Hashable, dict[str, nn.Module]] = {}
    if isinstance(module, nn.ModuleList | nn.Sequential):
        for name, child in children:
            groups.setdefault(_structure(child), {})[name] = child
    repeated = [blocks for structure, blocks in groups.items() if structure and len(blocks) > runs]
    yield from repeated
    for name, child in children:
        if not any(name in blocks for blocks in repeated):
            yield from _repeated(child, runs, name)


def _structure(block: nn.Module) -> Hashable | None:
    """Return what is equal for blocks that may repeat each other, or None; single layers are not blocks."""
    if isinstance(block, torch.jit.ScriptModule) or next(block.children(), None) is None:
        return None
    try:
        return kind_of_module(block)
    except UnknownKindError:
        return None


@dataclass(frozen=True)
class _Call:
    """A call of a block that ran."""

    kind: Hashable
    """The kind of the arguments."""
    read: dict[_Attribute, Any]
    """The attributes that differ among the blocks, and that this call depends on."""
    recorded: Any
    outputs: list[Tensor]
    kind_of_outputs: Hashable
    restore: Callable[[list[Tensor]], Any]
    """Returns what the block returns, given the tensors in it."""

    def is_like(self, block: nn.Module, kind: Hashable) -> bool:
        """Whether a block would do the same."""
        return (
            kind == self.kind
            and kind_of(self.outputs, []) == self.kind_of_outputs  # an in-place op may have changed their shapes
            and all(_same(value, _value(block, each)) for each, value in self.read.items())
        )


class _Blocks:
    """Blocks of the same structure, and the calls of them that ran."""

    def __init__(self, blocks: Mapping[str, nn.Module], recorder: Recorder) -> None:
        self.blocks, self.recorder = blocks, recorder
        self.calls: list[_Call] = []
        self.read: dict[str, set[_Attribute]] = {path: set() for path in blocks}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Decide at each call of a block whether it runs, and watch the attributes that differ."""
        differ = _attributes_that_differ(list(self.blocks.values()))
        with ExitStack() as stack:
            for path, block in self.blocks.items():
                for owner, names in differ.items():
                    stack.enter_context(_watched(block.get_submodule(owner), owner, names, self.read[path]))
                stack.enter_context(_with_forward(block, self._calling(path, block)))
            yield

    def _calling(self, path: str, block: nn.Module) -> Callable[..., Any]:
        forward = block.forward

        def call(*args: Any, **kwargs: Any) -> Any:
            inputs: list[Tensor] = []
            try:
                kind = kind_of((args, kwargs), inputs)
            except UnknownKindError:
                return forward(*args, **kwargs)
            if not inputs or _has_hooks_inside(block):
                return forward(*args, **kwargs)
            alike = [each for each in self.calls if each.is_like(block, kind)]
            if len(alike) >= self.recorder.runs:
                like = alike[-1]
                return like.restore(self.recorder.repeat(like.recorded, path, inputs, like.outputs))
            self.read[path].clear()
            state, start = _state(block), self.recorder.start(inputs)
            result = forward(*args, **kwargs)
            outputs, restore = _parts(result)
            if restore is not None and _state(block) == state:
                read = {attribute: _value(block, attribute) for attribute in self.read[path]}
                recorded = self.recorder.end(path, start, outputs)
                self.calls.append(_Call(kind, read, recorded, outputs, kind_of(outputs, []), restore))
            return result

        return call


def _has_hooks_inside(block: nn.Module) -> bool:
    """Whether a part of the block has hooks; transformers adds them in the call that returns attention scores."""
    parts = (part for part in block.modules() if part is not block)
    return any(part._forward_hooks or part._forward_pre_hooks for part in parts)


def _state(block: nn.Module) -> list[Any]:
    """Return what changes if a block stores something in itself."""
    values = (value for part in block.modules() for state in (vars(part), part._buffers) for value in state.items())
    return [(name, id(value), len(value) if isinstance(value, list | dict | set) else 0) for name, value in values]


def _parts(result: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any] | None]:
    """Return the tensors in what a block returned, and how to return others in the same way if that is possible."""
    leaves, spec = pytree.tree_flatten(result)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    constants = all(type(leaf) in CONSTANTS for leaf in leaves if not isinstance(leaf, Tensor))
    if not tensors or not constants or not all(map(_is_plain, tensors)):
        return [], None

    def restore(others: list[Tensor]) -> Any:
        remaining = iter(others)
        new = [next(remaining) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        return pytree.tree_unflatten(new, spec)

    return tensors, restore


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor has all its memory to itself, and sizes that do not depend on data."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols  # takes long to import

    return tensor.layout is torch.strided and not free_unbacked_symbols(tensor) and tensor.storage_offset() == 0


def _attributes_that_differ(blocks: list[nn.Module]) -> dict[str, set[str]]:
    """Return the names of attributes that are not the same in all blocks, by the path of their module."""
    differ: dict[str, set[str]] = {}
    for owner, module in blocks[0].named_modules():
        others = [vars(block.get_submodule(owner)) for block in blocks[1:]]
        for name, value in vars(module).items():
            if name not in MODULE_STATE and not all(_same(value, other[name]) for other in others):
                differ.setdefault(owner, set()).add(name)
    return differ


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return isinstance(a, CONSTANTS) and bool(a == b)


def _value(block: nn.Module, attribute: _Attribute) -> Any:
    owner, name = attribute
    return vars(block.get_submodule(owner))[name]


@contextmanager
def _watched(module: nn.Module, owner: str, names: set[str], read: set[_Attribute]) -> Iterator[None]:
    """Add the attributes of a module that are read to `read`."""

    def watched(name: str) -> property:
        def get(self: nn.Module) -> Any:
            read.add((owner, name))
            return vars(self)[name]

        return property(get, lambda self, value: vars(self).__setitem__(name, value))

    kind = type(module)
    members: dict[str, Any] = {name: watched(name) for name in names}
    named_like = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    module.__class__ = type(kind.__name__, (kind,), {**members, **named_like})
    try:
        yield
    finally:
        module.__class__ = kind


@contextmanager
def _with_forward(block: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    own = {name: value for name, value in vars(block).items() if name == "forward"}
    vars(block)["forward"] = forward
    try:
        yield
    finally:
        del vars(block)["forward"]
        vars(block).update(own)
