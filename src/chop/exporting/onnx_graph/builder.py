"""The ONNX graph while it is built, as plain data: importing this file needs no package."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chop.exporting.onnx_graph.data_types import BASE_OPSET, OF_TORCH, OPSETS, DataType
from chop.ir.graph.storage.packed import pack

Name = str
"""The name of a value in the ONNX graph."""


@dataclass(frozen=True)
class OnnxNode:
    """A node of the ONNX graph; `owner` is the name of the fx node that it belongs to."""

    op_type: str
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    attributes: dict[str, Any]
    owner: str
    domain: str = ""


@dataclass(frozen=True)
class Initializer:
    """A constant tensor, as the bytes in a file."""

    data_type: DataType
    shape: tuple[int, ...]
    content: bytes


@dataclass
class OnnxBuilder:
    """Collects nodes and constants; every value has a new name."""

    nodes: list[OnnxNode] = field(default_factory=list)
    initializers: dict[Name, Initializer] = field(default_factory=dict)
    opset: int = BASE_OPSET
    opset_reason: str = ""
    """What needs the opset, for error messages."""
    owner: str = ""
    _names: set[Name] = field(default_factory=set)
    _constants: dict[tuple[DataType, tuple[int, ...], bytes], Name] = field(default_factory=dict)

    @contextmanager
    def owned_by(self, owner: str) -> Iterator[None]:
        """Give the nodes that are added to an fx node."""
        before, self.owner = self.owner, owner
        try:
            yield
        finally:
            self.owner = before

    def unique(self, name: str) -> Name:
        """Return a name that no other value has."""
        new, number = name, 1
        while new in self._names:
            new, number = f"{name}_{number}", number + 1
        self._names.add(new)
        return new

    def need(self, opset: int, reason: str) -> None:
        """Raise the opset to at least `opset`."""
        if opset > self.opset:
            self.opset, self.opset_reason = opset, f"{reason} (node '{self.owner}')"

    def node(self, op_type: str, *inputs: Name, domain: Any = "", **attributes: Any) -> Name:
        """Add a node with one output and return the output. (`domain` is text; `**` of other dicts needs `Any`.)"""
        return self.node_with_outputs(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def node_with_outputs(
        self, op_type: str, count: int, /, *inputs: Name, domain: str = "", **attributes: Any
    ) -> tuple[Name, ...]:
        """Add a node with `count` outputs and return them."""
        outputs = tuple(self.unique(f"{self.owner}.{op_type}") for _ in range(count))
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(OnnxNode(op_type, inputs, outputs, given, self.owner, domain))
        return outputs

    def constant(self, value: Any, dtype: torch.dtype = torch.float32, name: str = "") -> Name:
        """Return a constant: a number, a list or a tensor; equal constants are stored once."""
        tensor = value.detach() if isinstance(value, Tensor) else torch.tensor(value, dtype=dtype)
        array = tensor.contiguous().cpu()
        content = array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b""
        return self.initializer(OF_TORCH[tensor.dtype], tuple(tensor.shape), content, name)

    def integers(self, *values: int) -> Name:
        """Return a list of integers as a constant, for shapes and axes."""
        return self.constant(list(values), torch.int64)

    def packed(self, data_type: DataType, codes: NDArray[np.int64], width: int, name: str) -> Name:
        """Return a constant of a narrow type from the codes of its elements."""
        if data_type in OPSETS:
            self.need(OPSETS[data_type], f"the type {data_type.name}")
        return self.initializer(data_type, codes.shape, pack(codes, width).tobytes(), name)

    def initializer(self, data_type: DataType, shape: tuple[int, ...], content: bytes, name: str = "") -> Name:
        """Return the name of a constant, which is added if there is no equal one."""
        key = (data_type, shape, content)
        if key not in self._constants:
            self._constants[key] = self.unique(name or f"{self.owner}.constant")
            self.initializers[self._constants[key]] = Initializer(data_type, shape, content)
        return self._constants[key]

    def zeros(self, data_type: DataType, shape: tuple[int, ...], name: str) -> Name:
        """Return zeros of an 8-bit type, which are stored again for each use."""
        new = self.unique(name)
        self.initializers[new] = Initializer(data_type, shape, bytes(math.prod(shape)))
        return new

    def cast(self, x: Name, data_type: DataType, **attributes: Any) -> Name:
        """Return a value in another type."""
        if data_type in OPSETS:
            self.need(OPSETS[data_type], f"the type {data_type.name}")
        return self.node("Cast", x, to=int(data_type), **attributes)

    def reshape(self, x: Name, shape: list[int] | Name) -> Name:
        """Return a value in another shape; 0 keeps a size, -1 is the rest."""
        return self.node("Reshape", x, shape if isinstance(shape, str) else self.integers(*shape))
