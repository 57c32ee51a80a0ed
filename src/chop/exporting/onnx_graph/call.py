"""A call of an op, as the functions see it that write its ONNX nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from chop.exporting.export import CannotExportError
from chop.exporting.onnx_graph.arguments import named_arguments
from chop.exporting.onnx_graph.builder import Name, OnnxBuilder
from chop.exporting.onnx_graph.data_types import OF_TORCH
from chop.formats import Format
from chop.ir import NodeMeta
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.registry import Registry

Shape = tuple[int | None, ...]
"""None: the size depends on the batch."""


@dataclass(frozen=True)
class Ref:
    """A tensor of the ONNX graph."""

    name: Name
    shape: Shape
    dtype: torch.dtype
    has_batch: bool = False
    """Whether its first dimension is the batch."""


@dataclass(frozen=True)
class Size:
    """An integer that depends on the batch: a tensor of one int64."""

    name: Name


@dataclass(frozen=True)
class Plain:
    """A result that is not a tensor: a size, a shape, or a part of several results."""

    value: Any


class Quantizer(Protocol):
    """Writes the nodes that round a tensor to a number format."""

    @property
    def target(self) -> str:
        """The name of the target, for error messages."""

    def parameter(
        self, builder: OnnxBuilder, name: str, value: Tensor, number_format: Format, scale: Tensor | None
    ) -> Name:
        """Return a constant tensor, stored in the format."""

    def activation(self, builder: OnnxBuilder, x: Ref, number_format: Format, scale: Tensor | None) -> Name:
        """Return the rounded value of a tensor."""


class OnnxCall:
    """A node of the fx graph: its operands, arguments and results."""

    def __init__(
        self,
        builder: OnnxBuilder,
        meta: NodeMeta,
        arguments: tuple[tuple[Any, ...], Mapping[str, Any]],
        quantizer: Quantizer,
        result: Any,
        other: Any,
    ) -> None:
        assert meta.op is not None, "only ops have calls"
        self.builder, self.meta, self.op, self.quantizer = builder, meta, meta.op, quantizer
        self.args, self.kwargs = arguments
        self.result, self.other_result = result, other
        """The results of two runs with different numbers of rows."""

    @property
    def module(self) -> Any:
        """The layer; None for functions and methods."""
        return self.meta.module

    @cached_property
    def function(self) -> Any:
        """The function or the name of the tensor method that is called."""
        quantized = self.meta.quantized
        return quantized.target if isinstance(quantized, QuantizedCall) else self.meta.node.target

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments that are given, by name."""
        if self.module is None:
            return named_arguments(self.function, self.op.name, self.args, self.kwargs)
        layer = self.module
        kind = layer.base_class if isinstance(layer, QuantizedLayer) else type(layer)
        return dict(inspect.signature(kind.forward).bind_partial(layer, *self.args, **self.kwargs).arguments)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument of the call, or an attribute of the layer."""
        if name in self.arguments:
            return self.arguments[name]
        return getattr(self.module, name, default) if self.module is not None else default

    @cached_property
    def operands(self) -> dict[str, Any]:
        """The values of all operands: tensors of the ONNX graph, constants, or numbers."""
        found = {name: value for name, _, value in self.op.bound(self.args, self.kwargs)}
        if self.module is not None:
            found |= self.op.parameters_of(self.module)
        return {name: value for name, value in found.items() if value is not None}

    def has(self, name: str) -> bool:
        """Whether the call has an operand."""
        return name in self.operands

    def tensor(self, name: str, dtype: torch.dtype | None = None) -> Name:
        """Return an operand, rounded to its format if it has one, and in another type if given."""
        value = self.operands[name]
        rounded = self._rounded(name, value)
        if rounded is not None:
            return rounded
        if isinstance(value, Tensor):
            return self.builder.constant(value if dtype is None else value.to(dtype), name=self.label(name))
        return self.value(value, dtype)

    def given(self, name: str) -> list[Name]:
        """Return an operand in a list, which is empty if the call does not have it."""
        return [self.tensor(name)] if self.has(name) else []

    def _rounded(self, name: str, value: Any) -> Name | None:
        quantized = self.meta.quantized
        number_format = None if quantized is None else quantized.formats.get(name)
        if quantized is None or number_format is None or not number_format.rounds:
            return None
        if not isinstance(value, Ref | Tensor) or not value.dtype.is_floating_point:
            return None
        scale = quantized.scale_of(name)
        scale = None if scale is None else scale.detach()
        if value.dtype is not torch.float32:
            raise self.refusal(f"its numbers are {value.dtype}; formats are exported for float32 only")
        try:
            if isinstance(value, Tensor):
                return self.quantizer.parameter(
                    self.builder, self.label(name), value.detach(), number_format, scale
                )
            return self.quantizer.activation(self.builder, value, number_format, scale)
        except CannotFormatError as error:
            reason = f"{name} has the format {number_format}, {error}"
            raise CannotExportError(self.meta.node.name, self.quantizer.target, reason) from error

    def label(self, operand: str) -> str:
        """Return the name of a parameter in the model, for the name of the constant."""
        return f"{self.meta.node.name if self.module is None else self.meta.node.target}.{operand}"

    def value(self, value: Any, dtype: torch.dtype | None = None) -> Name:
        """Return a tensor, a constant or a number as a value of the ONNX graph."""
        if isinstance(value, Ref):
            same = dtype is None or value.dtype is dtype
            return value.name if same else self.builder.cast(value.name, OF_TORCH[dtype])  # type: ignore[index]
        if isinstance(value, Size):
            size = self.builder.node("Squeeze", value.name)
            return size if dtype in (None, torch.int64) else self.builder.cast(size, OF_TORCH[dtype])
        if isinstance(value, Tensor):
            return self.builder.constant(value if dtype is None else value.to(dtype))
        if isinstance(value, bool | int | float):
            return self.builder.constant(value, dtype or torch.float32)
        raise self.refusal(f"an argument is {type(value).__name__}, not a tensor or a number")

    def rounded_result(self, name: Name) -> Name:
        """Return the result, rounded to the format of `data_out` if it has one."""
        quantized = self.meta.quantized
        if quantized is None or "data_out_0" not in quantized.formats:
            return name
        tensor = self.result[0] if isinstance(self.result, tuple) else self.result
        self.operands["data_out_0"] = Ref(name, self.shape_of_result(), tensor.dtype)
        return self.tensor("data_out_0")

    # Shapes

    def shape(self, name: str = "data_in_0") -> Shape:
        """Return the shape of an operand."""
        value = self.operands[name]
        return value.shape if isinstance(value, Ref) else tuple(getattr(value, "shape", ()))

    def rank(self, name: str = "data_in_0") -> int:
        """Return the number of dimensions of an operand."""
        return len(self.shape(name))

    def shape_of_result(self, index: int = 0) -> Shape:
        """Return the shape of a result."""
        first, second = (
            value[index] if isinstance(value, tuple | list) else value for value in (self.result, self.other_result)
        )
        if second is None:
            return tuple(first.shape)
        return tuple(n if n == m else None for n, m in zip(first.shape, second.shape, strict=True))

    def static(self, size: int | None, what: str) -> int:
        """Return a size that must not depend on the batch."""
        if size is None:
            raise self.refusal(f"{what} depends on the batch size")
        return size

    def dim(self, dim: int, name: str = "data_in_0") -> int:
        """Return a dimension counted from the start."""
        rank = max(self.rank(name), 1)
        return dim % rank

    def refusal(self, reason: str) -> CannotExportError:
        """Return an error that names the node and the target."""
        return CannotExportError(self.meta.node.name, self.quantizer.target, reason)


class CannotFormatError(ValueError):
    """A number format that the target does not have; the message completes `weight has the format ...,`."""


OpResult = Name | Ref | Plain | tuple[Any, ...]
"""The result of an op: a new value, one of its operands, something that is not a tensor, or several of them."""
Lowering = Callable[[OnnxCall], OpResult]
L = TypeVar("L", bound=Lowering)
LOWERINGS: Registry[Lowering] = Registry("ONNX op")


def lowers(*ops: str) -> Callable[[L], L]:
    """Register a function that returns the result of these ops, after adding their nodes."""

    def decorate(function: L) -> L:
        for op in ops:
            LOWERINGS.add(op, function)
        return function

    return decorate
