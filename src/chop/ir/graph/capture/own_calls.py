"""The functions that a model's own code calls in a run, to compare two runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from chop.ir import graph
from chop.ir.graph.kinds import CONSTANTS
from chop.nn import quantized

_TORCH = str(Path(torch.__path__[0]))
_LAYERS = tuple(str(Path(package.__path__[0])) for package in (torch.nn, quantized, graph))
_PASSED_THROUGH = tuple(inspect.getfile(each) for each in (torch.nn.functional, nn.Module, nn.Sequential))
"""Files in which functions and layers are called on behalf of other code."""
_DROPOUT = "dropout"
_FOLLOW_THE_MODE = (_DROPOUT, "batch_norm", "instance_norm", "attention", "rrelu")
"""Parts of the names of functions with arguments that may follow the mode."""
_DRAWS = ("rand", "uniform_")
_OPERATORS = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")


class OwnCalls(TorchFunctionMode):
    """Records the functions that are called outside of layers, and where the tensors given to them come from."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls: list[Hashable] = []
        self.computed: list[Hashable] = []
        """How each output and each tensor that is overwritten was computed."""
        self._origins = WeakTensorKeyDictionary()
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._note(tensor, name)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        is_own = _is_own(inspect.currentframe())
        result = func(*args, **kwargs)
        if is_own:
            name = str(getattr(func, "__name__", func))
            if name in _DRAWS:
                result.zero_()
            overwrites = name.endswith("_") and (name in _OPERATORS or not name.endswith("__"))
            self.add(name, (args, kwargs), result, is_effect=overwrites)
        return result

    def add(self, name: str, given: Any, result: Any, *, is_effect: bool = False) -> None:
        """Note a call and where its results come from; dropout returns its input in evaluation."""
        follows = any(word in name.lower() for word in _FOLLOW_THE_MODE)
        described = [
            self._describe(leaf) for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor) or not follows
        ]
        call = (name, *described)
        self.calls.append(call)
        if is_effect:
            self.computed.append(call)
        self._note(result, described[0] if _DROPOUT in name.lower() and described else hash(call))

    def without_origin(self, values: Any) -> list[Tensor]:
        """Return the tensors whose origin is not known, such as those of a block that did not run."""
        tensors = (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor))
        return [tensor for tensor in tensors if tensor not in self._origins]

    def _note(self, values: Any, origin: Hashable) -> None:
        for position, tensor in enumerate(pytree.tree_leaves(values)):
            if isinstance(tensor, Tensor):
                self._origins[tensor] = (origin, position) if position else origin

    def _describe(self, value: Any) -> Hashable:
        """Return a constant, or where a tensor comes from: a parameter or buffer, or the hash of a call."""
        if isinstance(value, Tensor):
            origin: Hashable = self._origins.get(value, tuple(value.shape))
            return origin
        return value if type(value) in CONSTANTS else type(value).__name__


@contextmanager
def own_calls(model: nn.Module, inputs: Mapping[str, Any]) -> Iterator[OwnCalls]:
    """Record the calls of functions and layers by the model's own code, and its output.

    `torch.rand` returns zeros, so that a branch such as `torch.rand([]) < p` is taken if it ever is.
    """
    own = OwnCalls(model)
    own.add("input", (), inputs)
    paths = {id(module): path for path, module in model.named_modules()}

    def note_call(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if module is model:
            own.add("output", output, (), is_effect=True)
        elif _is_own(inspect.currentframe()):
            follows = vars(module).get("training") == vars(model).get("training")
            name = f"{type(module).__name__} {paths.get(id(module))} {follows}"
            if type(module).__module__.startswith("torch."):
                own.add(name, (args, kwargs), output)
            else:
                own.add(name, (args, kwargs, output), own.without_origin(output), is_effect=True)

    hook = register_module_forward_hook(note_call, with_kwargs=True)
    try:
        with own:
            yield own
    finally:
        hook.remove()


def _is_own(frame: FrameType | None) -> bool:
    """Whether a function or layer is called by a model's own code, as opposed to a layer."""
    frame = frame.f_back if frame is not None else None
    while frame is not None and (file := frame.f_code.co_filename).startswith(_TORCH):
        if file.startswith(_LAYERS) and file not in _PASSED_THROUGH:
            return False
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(_LAYERS)
