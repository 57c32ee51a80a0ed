"""Models in ONNX and QONNX files as graphs; the formats of their quantisers are set in the graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import fx, nn

import chop.models.onnx_reader.ops
import chop.models.onnx_reader.quantizers  # noqa: F401
from chop.models.base import ModelInfo
from chop.models.onnx_reader.protos import Attributes, read_model
from chop.models.onnx_reader.reader import READERS, OnnxReader, ReadNode
from chop.registry import closest

MAX_REASON_LENGTH = 200
DOMAINS = ("", "ai.onnx", "com.microsoft", "qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
"""Whose ops have the meaning that their names have here."""
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What PyTorch and the readers of ops raise for nodes that do not fit each other."""


def describe_onnx(name: str) -> ModelInfo:
    """Return the description of a model in an ONNX file."""
    model, inputs = read_onnx(Path(name).expanduser())

    def make() -> nn.Module:
        """A model of an ONNX file."""
        return copy.deepcopy(model)

    return ModelInfo(
        name=name,
        make=make,
        inputs=inputs,
        tasks=("cls",),
        summary="A model of an ONNX file.",
        sample_dims=None,
        has_weights=True,
    )


def read_onnx(path: Path) -> tuple[fx.GraphModule, tuple[str, ...]]:
    """Return the model of a file, and the names of its inputs."""
    proto = read_model(path)
    with _explaining(f"'{path}'"):
        reader = OnnxReader(path, proto)
    for info in reader.proto.graph.input:
        if info.name not in reader.values:
            reader.add_input(info)
    following: dict[str, list[str]] = {}
    for node in reader.proto.graph.node:
        for name in node.input:
            following.setdefault(name, []).append(node.op_type)
    own = {(function.domain, function.name) for function in reader.proto.functions}
    for node in reader.proto.graph.node:
        name = next(iter(node.output), "")
        where = f"'{path}': node '{name}'"
        if node.op_type not in READERS:
            raise ValueError(f"{where} has the op '{node.op_type}'; {closest(node.op_type, READERS)}")
        if node.domain not in DOMAINS or (node.domain, node.op_type) in own:
            raise ValueError(f"{where} has the op '{node.op_type}' of '{node.domain}', whose meaning is unknown")
        with _explaining(f"{where} ({node.op_type})"):
            inputs = [reader.value(each) for each in node.input]
            attributes = Attributes(node)
            next_ops = [op for output in node.output for op in following.get(output, [])]
            step = ReadNode(node.op_type, name, inputs, attributes, list(node.input), next_ops)
            reader.values[name] = READERS[node.op_type](reader, step)
            attributes.check_all_read(reader.opset)
    with _explaining(f"'{path}'"):
        return reader.finish(), tuple(reader.inputs)


@contextmanager
def _explaining(where: str) -> Iterator[None]:
    """Name the part of the file in errors about it."""
    try:
        yield
    except _UNREADABLE as error:
        reason = " ".join(str(error).split())[:MAX_REASON_LENGTH] or type(error).__name__
        raise ValueError(f"{where} cannot be read: {reason}") from error
