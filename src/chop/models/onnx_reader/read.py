"""From an ONNX file to a GraphModule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import fx

import chop.models.onnx_reader.ops
import chop.models.onnx_reader.quantizers  # noqa: F401
from chop.models.onnx_reader.protos import attributes_of
from chop.models.onnx_reader.reader import OnnxReader, ReadNode
from chop.models.onnx_reader.table import READERS
from chop.registry import closest

MAX_REASON_LENGTH = 200


def read_onnx(path: Path) -> tuple[fx.GraphModule, tuple[str, ...]]:
    """Return the model of a file, and the names of its inputs."""
    reader = OnnxReader(path)
    for info in reader.proto.graph.input:
        if info.name not in reader.values:
            reader.add_input(info)
    following: dict[str, list[str]] = {}
    for node in reader.proto.graph.node:
        for name in node.input:
            following.setdefault(name, []).append(node.op_type)
    for node in reader.proto.graph.node:
        _add(reader, node, [each for output in node.output for each in following.get(output, [])])
    return reader.finish(), tuple(reader.inputs)


def _add(reader: OnnxReader, node: Any, following: list[str]) -> None:
    """Add a node of the file to the graph."""
    name, where = node.output[0], f"'{reader.path}': node '{node.output[0]}'"
    if node.op_type not in READERS:
        raise ValueError(f"{where} has the op '{node.op_type}'; {closest(node.op_type, READERS)}")
    inputs = [reader.values[each] if each else None for each in node.input]
    step = ReadNode(node.op_type, name, inputs, attributes_of(node), list(node.input), following)
    try:
        reader.values[name] = READERS[node.op_type](reader, step)
    except (ValueError, RuntimeError, IndexError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:MAX_REASON_LENGTH]
        raise ValueError(f"{where} ({node.op_type}) cannot be read: {reason}") from error
