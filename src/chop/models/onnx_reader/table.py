"""The registry of functions that read the ops of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from chop.models.onnx_reader.constants import Constant
from chop.models.onnx_reader.reader import OnnxReader, ReadNode
from chop.registry import Registry

Reader = Callable[[OnnxReader, ReadNode], Any]
READERS: Registry[Reader] = Registry("op of ONNX")


def reads(*ops: str) -> Callable[[Reader], Reader]:
    """Register a function that adds the nodes of these ops."""

    def decorate(function: Reader) -> Reader:
        for op in ops:
            READERS.add(op, function)
        return function

    return decorate


def constant(value: Any, what: str) -> Tensor:
    """Return an input that must be a constant."""
    if not isinstance(value, Constant):
        raise ValueError(f"{what} is not a constant")
    return value.value
