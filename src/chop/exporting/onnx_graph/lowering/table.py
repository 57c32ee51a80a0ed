"""The registry of functions that write the ONNX nodes of an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, Plain, Ref
from chop.registry import Registry

Lowered = Name | Ref | Plain | tuple[Any, ...]
"""The result of an op: a new value, one of its operands, something that is not a tensor, or several of them."""
Lowering = Callable[[OnnxCall], Lowered]
L = TypeVar("L", bound=Lowering)
LOWERINGS: Registry[Lowering] = Registry("ONNX op")


def lowers(*ops: str) -> Callable[[L], L]:
    """Register a function that returns the result of these ops, after adding their nodes."""

    def decorate(function: L) -> L:
        for op in ops:
            LOWERINGS.add(op, function)
        return function

    return decorate
