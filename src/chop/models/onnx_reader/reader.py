"""The graph of an ONNX file while it is built: layers and functions of PyTorch, with formats."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from chop.formats import Format
from chop.ir.graph.graph_module import graph_module
from chop.models.onnx_reader.protos import opset_of, tensor_of, type_name
from chop.nn.quantized import quantize_layer
from chop.ops import op_of_module
from chop.registry import Registry

SAMPLE_ROWS = 2
"""The batch on which shapes are computed while the graph is built."""
MAX_INPUT_VALUES = 2**26
"""Per sample: 256 MiB; shapes are computed with two samples."""
INPUT_TYPES = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT32", "INT64")
RESERVED_NAMES = frozenset(
    {*keyword.kwlist, *dir(nn.Module()), "self", "torch", "device", "inf", "nan", "NoneType"}
)
"""What a layer, or an input in the source that torch.fx writes, cannot be called."""


@dataclass(frozen=True, eq=False)
class Quantization:
    """A number format, and the scale of the file if it is not part of the format."""

    format: Format
    scale: Tensor | None = None
    """A number, or a tensor that broadcasts against the values."""

    def transposed(self, order: list[int]) -> Quantization:
        """Return the quantisation of a tensor whose dimensions are permuted."""
        if self.scale is None or self.scale.dim() < 2:
            return self
        return replace(self, scale=self.scale.permute(order))

    def reshaped(self) -> Quantization:
        """Return the quantisation of a tensor in another shape, for which only one scale has a meaning."""
        if self.scale is not None and self.scale.numel() > 1:
            raise ValueError("a tensor with several scales is reshaped")
        return self


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant of the file as real numbers, and how they were quantised."""

    value: Tensor
    quantization: Quantization | None = None
    limits: tuple[int, int] | None = None
    """The smallest and the largest integer, if they are narrower than the type."""


@dataclass(frozen=True, eq=False)
class Flow:
    """A tensor that depends on the inputs, and the quantiser that it has yet to pass."""

    node: fx.Node
    sample: Tensor
    quantization: Quantization | None = None


@dataclass(frozen=True, eq=False)
class ReadNode:
    """A node of the file, with the values of its inputs; an input that is left out is None."""

    op_type: str
    name: str
    """The name of its result."""
    inputs: list[Any]
    attributes: Mapping[str, Any]
    names: list[str]
    """The names of its inputs."""
    following: list[str]
    """The ops that read its result."""


class OnnxReader:
    """The graph while it is built."""

    def __init__(self, path: Path, proto: Any) -> None:
        self.path = path
        self.proto = proto
        self.root, self.graph = nn.Module(), fx.Graph()
        self.opset = opset_of(self.proto)
        self.types = {each.name: each.data_type for each in self.proto.graph.initializer}
        self.values: dict[str, Any] = {
            each.name: Constant(tensor_of(each)) for each in self.proto.graph.initializer
        }
        self.inputs: list[str] = []
        self._used = set(RESERVED_NAMES)

    def finish(self) -> fx.GraphModule:
        """Return the model, after all nodes were added."""
        outputs = [self.rounded(self.flow(self.value(info.name))).node for info in self.proto.graph.output]
        self.graph.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
        return graph_module(self.root, self.graph, self._name(self.path.stem).capitalize())

    def add_input(self, info: Any) -> None:
        """Add an input of the file; all sizes but the first must be given."""
        dims = info.type.tensor_type.shape.dim
        sizes = [each.dim_value for each in dims]
        if not sizes or any(size < 1 for size in sizes[1:]):
            raise ValueError(f"'{self.path}': input '{info.name}' has sizes that are not given")
        if math.prod(sizes[1:]) > MAX_INPUT_VALUES:
            raise ValueError(
                f"'{self.path}': input '{info.name}' has {math.prod(sizes[1:]):,} values per sample; "
                f"{MAX_INPUT_VALUES:,} are read"
            )
        kind = type_name(info.type.tensor_type.elem_type)
        if kind not in INPUT_TYPES:
            raise ValueError(f"'{self.path}': input '{info.name}' is {kind}; read are {', '.join(INPUT_TYPES)}")
        name = self._name(info.name)
        is_integer = kind.startswith("INT")
        sample = torch.zeros([SAMPLE_ROWS, *sizes[1:]], dtype=torch.int64 if is_integer else torch.float32)
        self.values[info.name] = Flow(self.graph.placeholder(name), sample)
        self.inputs.append(name)

    def _name(self, name: str) -> str:
        """Return a Python name that no other node has."""
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "node"
        plain = unique = plain if plain[0].isalpha() else f"node_{plain}"
        number = 1
        while unique in self._used:
            number += 1
            unique = f"{plain}_{number}"
        self._used.add(unique)
        return unique

    def value(self, name: str) -> Any:
        """Return the tensor of a name in the file; None for an input that is left out."""
        if name and name not in self.values:
            raise ValueError(f"'{name}' is not the first result of a node, nor a constant or an input")
        return self.values[name] if name else None

    def flow(self, value: Any) -> Flow:
        """Return a value as a tensor of the graph; a constant becomes a buffer."""
        if isinstance(value, Flow):
            return value
        if not isinstance(value, Constant):
            raise ValueError("it reads a quantised tensor that no DequantizeLinear follows")
        name = self._name("constant")
        self.root.register_buffer(name, value.value)
        return Flow(self.graph.get_attr(name), value.value, value.quantization)

    def rounded(self, flow: Flow) -> Flow:
        """Return a tensor after its quantiser, which becomes a layer of its own: a ReLU that leaves all values."""
        if flow.quantization is None:
            return flow
        return self.layer("quantizer", nn.LeakyReLU(1.0), flow, {})

    def layer(self, name: str, module: nn.Module, x: Flow, constants: Mapping[str, Constant | None]) -> Flow:
        """Return the result of a layer whose input and parameters have the formats of their quantisers."""
        quantizations = {"data_in_0": x.quantization}
        quantizations |= {key: each.quantization for key, each in constants.items() if each is not None}
        found = {key: each for key, each in quantizations.items() if each is not None}
        module.eval().requires_grad_(True)
        if found:
            module = _quantized(module, found)
        path = self._name(name)
        self.root.add_module(path, module.eval())
        with torch.no_grad():
            sample = module(x.sample)
        return Flow(self.graph.call_module(path, (x.node,)), sample)

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Flow:
        """Return the result of a function; tensors among its arguments pass their quantisers first."""
        flows = [self.rounded(each) if isinstance(each, Flow) else each for each in args]

        def parts(attribute: str) -> list[Any]:
            return [getattr(each, attribute) if isinstance(each, Flow) else each for each in flows]

        with torch.no_grad():
            sample = function(*parts("sample"), **kwargs)
        return Flow(self.graph.call_function(function, tuple(parts("node")), kwargs), sample)

    def moved(self, function: Any, x: Flow, *args: Any) -> Flow:
        """Return the result of a function that moves elements; the quantiser may as well follow it."""
        quantization = None if x.quantization is None else x.quantization.reshaped()
        result = self.call(function, replace(x, quantization=None), *args)
        return replace(result, quantization=quantization)

    def join(self, function: Any, flows: list[Flow], **kwargs: Any) -> Flow:
        """Return the result of a function of a list of tensors."""
        rounded = [self.rounded(each) for each in flows]
        sample = function([each.sample for each in rounded], **kwargs)
        return Flow(self.graph.call_function(function, ([each.node for each in rounded],), kwargs), sample)


def _quantized(module: nn.Module, found: Mapping[str, Quantization]) -> nn.Module:
    op = op_of_module(type(module))
    assert op is not None, "all layers that are made here are in the op table"
    formats = {}
    for key, each in found.items():
        operand = op.operand(key)
        assert operand is not None, f"{op.name} has no operand '{key}'"
        formats[key] = each.format.for_operand(operand.reduce_dim, operand.channel_dim)
    label = type(next(iter(formats.values()))).__name__
    layer = quantize_layer(module, formats, label)
    for key, each in found.items():
        if each.scale is not None:
            layer.register_buffer(f"{key.removesuffix('_0')}_scale", each.scale.clone())
    return layer


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
