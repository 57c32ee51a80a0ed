"""Conversion of nodes and their metadata to JSON, and back."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from typing import Any

from torch import fx

from chop.formats import FORMATS
from chop.ir.graph.graph_module import NodeRecord, NodeRef
from chop.ir.graph.input_sizes import CapturedSizes
from chop.ir.graph.meta import NOTES, NodeMeta, TensorMeta
from chop.ir.graph.storage.checks import SizeBound, identifier, segment
from chop.ir.graph.storage.layers import decode_formats, encode_formats
from chop.ir.graph.storage.values import (
    NotPlainError,
    decode,
    decode_device,
    decode_dtype,
    decode_format,
    encode,
    encode_dtype,
    encode_format,
)
from chop.ir.graph.training_mode import ByMode
from chop.nn.quantized import QuantizedCall
from chop.ops import function_named, method_names, op_of_function, op_of_method, qualified_name

_CLASS = "class "
"""Before the name of a class, such as the one of a model's outputs."""
_READABLE_ATTRIBUTES = ("shape", "ndim", "dtype", "device", "T", "mT")


class NamedOutputs(dict[str, Any]):
    """The outputs of a model by name, also as attributes: `outputs["logits"]` or `outputs.logits`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the model has no output '{name}'; it has {', '.join(self)}") from None


def encode_node(record: NodeRecord) -> dict[str, Any]:
    """Return the JSON record of a node."""
    quantized = record.target if isinstance(record.target, QuantizedCall) else None
    op, target = plain_call(record.op, record.target)
    data: dict[str, Any] = {"op": op, "name": identifier(record.name), "target": encode_target(op, target)}
    try:
        data |= {"args": encode(tuple(record.args)), "kwargs": encode(dict(record.kwargs))}
    except NotPlainError as error:
        raise ValueError(f"node '{record.name}' cannot be saved: its arguments contain {error}") from None
    if record.by_mode:
        data["by_mode"] = [[key, *values] for key, values in record.by_mode.items()]
        data["mode_of"] = record.mode_of
    if record.captured_sizes is not None:
        data["captured_sizes"] = [list(record.captured_sizes.shape), *astuple(record.captured_sizes)[1:]]
    if record.evaluation_only:
        data["evaluation_only"] = dict(record.evaluation_only)
    if quantized is not None:
        data["quantized"] = {
            "format": quantized.format_name,
            "formats": encode_formats(quantized.formats),
            "writes_back": quantized.writes_back,
            "scales": dict(quantized.scales),
            "learned": list(quantized.learned),
        }
    return data


def plain_call(op: str, target: Any) -> tuple[str, Any]:
    """Return the op and target of a node without formats."""
    if not isinstance(target, QuantizedCall):
        return op, target
    return ("call_method" if isinstance(target.target, str) else "call_function"), target.target


def encode_target(op: str, target: Any) -> str:
    """Return the name of a node's target: the qualified name of a function or class, else the target itself."""
    if isinstance(target, type):
        return f"{_CLASS}{qualified_name(target)}"
    return qualified_name(target) if op == "call_function" else str(target)


def decode_nodes(records: Iterable[Mapping[str, Any]]) -> list[NodeRecord]:
    """Return the nodes of the JSON records of a graph, after bounding the memory that they need together."""
    bound = SizeBound()
    return [_decode_node(record, bound) for record in records]


def _decode_node(data: Mapping[str, Any], bound: SizeBound) -> NodeRecord:
    """Return the node of a JSON record, after checking everything that torch.fx writes into generated code."""
    op, name = data["op"], identifier(data["name"])
    args, kwargs = decode(data["args"]), decode(data["kwargs"])
    for key in kwargs:
        identifier(key)
    target = _decode_target(op, data["target"])
    if target is builtins.getattr and not (len(args) == 2 and args[1] in _READABLE_ATTRIBUTES and not kwargs):
        raise ValueError(f"node '{name}' may not read '{args[1:]}'; allowed: {', '.join(_READABLE_ATTRIBUTES)}")
    if op == "call_method" and not (args and isinstance(args[0], NodeRef)):
        raise ValueError(f"node '{name}' calls '{target}' on something that is not a node")
    devices = (*(args[1:] if getattr(target, "__name__", target) == "to" else ()), kwargs.get("device"))
    for device in devices:
        if isinstance(device, str):
            decode_device(device)
    bound.add(name, target, args, kwargs)
    if "quantized" in data:
        op, target = "call_function", decode_call(op, target, data["quantized"])
    by_mode = _decode_by_mode(data.get("by_mode", ()), args, kwargs)
    captured_sizes = None
    if "captured_sizes" in data:  # older files have no bounds of rows
        shape, *bounds = data["captured_sizes"]
        bounds = bounds if len(bounds) > 2 else [*bounds, 0, None]
        least, most, least_rows, most_rows = (None if bound is None else int(bound) for bound in bounds)
        captured_sizes = CapturedSizes(tuple(map(int, shape)), least or 0, most, least_rows or 0, most_rows)
    return NodeRecord(
        op,
        name,
        target,
        args,
        kwargs,
        by_mode,
        mode_of=str(data.get("mode_of", "")),
        captured_sizes=captured_sizes,
        evaluation_only={str(path): str(line) for path, line in (data.get("evaluation_only") or {}).items()},
    )


def decode_call(op: str, target: Any, record: Mapping[str, Any]) -> QuantizedCall:
    """Return the quantised call of a `quantized` record; its op must be quantisable."""
    found = op_of_method(target) if op == "call_method" else op_of_function(target)
    if found is None or not found.quantizable:
        raise ValueError(f"'{target}' cannot be quantised")
    FORMATS[record["format"]]  # raises an error if the format is unknown
    formats = decode_formats(record["formats"])
    scales = {str(name): float(scale) for name, scale in record.get("scales", {}).items()}
    if not all(name in formats and 0 < scale < math.inf for name, scale in scales.items()):
        raise ValueError(f"'{target}' has the scales {scales}; positive numbers for its operands are allowed")
    learned = {str(name): None for name in record.get("learned", ())}
    if not all(name in formats and formats[name].has_learned_scale for name in learned):
        raise ValueError(f"'{target}' has learned scales of {', '.join(learned)}, but not the formats for them")
    writes_back = bool(record.get("writes_back"))
    return QuantizedCall(target, found.name, formats, record["format"], writes_back, scales, learned)


def _decode_target(op: str, target: Any) -> Any:
    match op:
        case "placeholder":
            identifier(target.removeprefix("*").removeprefix("*"))
            return target
        case "output":
            return "output"
        case "get_attr" | "call_module":
            return ".".join(segment(name) for name in target.split("."))
        case "call_method" if target in method_names():
            return target
        case "call_function" if str(target).startswith(_CLASS):
            return NamedOutputs  # not the class itself, which only the model's own code may import
        case "call_function" if (function := function_named(target)) is not None:
            return function
        case "call_method" | "call_function":
            kind = "tensor method" if op == "call_method" else "function"
            raise ValueError(f"{kind} '{target}' is not in the op table; load into a graph of the model itself")
        case _:
            raise ValueError(f"unknown kind of node '{op}'")


def _decode_by_mode(data: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ByMode:
    """Return the arguments that follow the mode; only numbers may, and only in place of numbers."""
    by_mode = {key: (in_evaluation, in_training) for key, in_evaluation, in_training in data}
    arguments: dict[int | str, Any] = dict(enumerate(args))
    arguments |= dict(kwargs.items())
    for key, values in by_mode.items():
        if not all(isinstance(value, bool | int | float) for value in (*values, arguments.get(key))):
            raise ValueError(f"argument '{key}' cannot follow the mode, because it is not a number")
    return by_mode


def encode_meta(meta: NodeMeta) -> dict[str, Any]:
    """Return the JSON record of a node's metadata, without the values of its tensors."""
    try:
        return {
            "annotated": meta.annotated,
            "args": {name: _encode_tensor(tensor) for name, tensor in meta.args.items()},
            "results": {name: _encode_tensor(tensor) for name, tensor in meta.results.items()},
            "settings": encode(meta.settings),
            **{part: encode(getattr(meta, part)) for part in NOTES},
        }
    except NotPlainError as error:
        raise ValueError(f"the metadata of node '{meta.node.name}' cannot be saved: it contains {error}") from None


def decode_metas(graph: fx.Graph, data: Mapping[str, Any]) -> dict[fx.Node, NodeMeta]:
    """Return the metadata of each node that has a JSON record in `data`."""
    return {node: _decode_meta(data[node.name], node) for node in graph.nodes if node.name in data}


def _decode_meta(data: Mapping[str, Any], node: fx.Node) -> NodeMeta:
    meta = NodeMeta(node, annotated=bool(data["annotated"]))
    meta.op = meta.find_op() if meta.annotated else None
    parameters = meta.op.parameters_of(meta.module) if meta.op and meta.module is not None else {}
    meta.args = {name: _decode_tensor(tensor, name in parameters) for name, tensor in data["args"].items()}
    meta.results = {name: _decode_tensor(tensor) for name, tensor in data["results"].items()}
    meta.settings = decode(data["settings"])
    for part in NOTES:
        setattr(meta, part, decode(data[part]))
    return meta


def _encode_tensor(tensor: TensorMeta) -> dict[str, Any]:
    return {
        "shape": tensor.shape,
        "dtype": encode_dtype(tensor.dtype),
        "format": encode_format(tensor.format),
        "notes": encode(tensor.notes),
    }


def _decode_tensor(data: Mapping[str, Any], is_parameter: bool = False) -> TensorMeta:
    return TensorMeta(
        shape=list(data["shape"]),
        dtype=decode_dtype(data["dtype"]),
        format=decode_format(data["format"]),
        is_parameter=is_parameter,
        notes=decode(data["notes"]),
    )
