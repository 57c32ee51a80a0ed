"""Nodes and what is known of them as JSON, and back."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from torch import fx

from chop.ir.graph.meta import NodeMeta, TensorMeta
from chop.ir.graph.module import NodeRecord
from chop.ir.graph.storage.layers import check_path, decode_formats, encode_formats
from chop.ir.graph.storage.values import (
    NotPlainError,
    decode,
    decode_dtype,
    decode_format,
    encode,
    encode_dtype,
    encode_format,
)
from chop.nn.quantized import QuantizedCall
from chop.ops import OPS, function_names, method_names, qualified_name

_READABLE_ATTRIBUTES = ("shape", "ndim", "dtype", "device", "T", "mT")
_NOTES = ("common", "software", "hardware")


def encode_node(record: NodeRecord) -> dict[str, Any]:
    return {
        "op": record.op,
        "name": record.name,
        "target": _encode_target(record.op, record.target),
        "args": encode(tuple(record.args)),
        "kwargs": encode(dict(record.kwargs)),
    }


def _encode_target(op: str, target: Any) -> Any:
    if op != "call_function":
        return target
    if not isinstance(target, QuantizedCall):
        return {"function": qualified_name(target)}
    inner = {"method": target.target} if isinstance(target.target, str) else _encode_target(op, target.target)
    formats = encode_formats(target.formats)
    return {"quantized": inner, "op": target.op_name, "formats": formats, "format": target.format_name}


def decode_node(data: Mapping[str, Any]) -> NodeRecord:
    """The node's record, with everything checked that fx would write into code."""
    op, name = data["op"], _identifier(data["name"])
    args, kwargs = decode(data["args"]), decode(data["kwargs"])
    for key in kwargs:
        _identifier(key)
    target = _decode_target(op, data["target"])
    if target is builtins.getattr and not (len(args) == 2 and args[1] in _READABLE_ATTRIBUTES):
        raise ValueError(f"node '{name}' may not read '{args[1:]}'; allowed: {', '.join(_READABLE_ATTRIBUTES)}")
    return NodeRecord(op, name, target, args, kwargs)


def _decode_target(op: str, target: Any) -> Any:
    match op:
        case "placeholder":
            _identifier(str(target).lstrip("*"))
            return target
        case "output":
            return "output"
        case "get_attr" | "call_module":
            return check_path(target)
        case "call_method":
            return _method(target)
        case "call_function" if "quantized" in target:
            inner = target["quantized"]
            function = _method(inner["method"]) if "method" in inner else _function(inner["function"])
            formats = decode_formats(target["formats"])
            return QuantizedCall(function, OPS[target["op"]].name, formats, target["format"])
        case "call_function":
            return _function(target["function"])
        case _:
            raise ValueError(f"unknown kind of node '{op}'")


def _function(name: str) -> Any:
    known = function_names()
    if name not in known:
        raise ValueError(f"function '{name}' is not in the op table; load into a graph of the model itself")
    return known[name]


def _method(name: str) -> str:
    if name not in method_names():
        raise ValueError(f"tensor method '{name}' is not in the op table; load into a graph of the model itself")
    return name


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"'{name}' is no name")
    return name


def encode_meta(meta: NodeMeta) -> dict[str, Any]:
    """What is known of a node, but for the values of its tensors."""
    data: dict[str, Any] = {"annotated": meta.annotated}
    data["args"] = {name: _encode_tensor(tensor) for name, tensor in meta.args.items()}
    data["results"] = {name: _encode_tensor(tensor) for name, tensor in meta.results.items()}
    data["settings"] = encode(meta.settings)
    for part in _NOTES:
        try:
            data[part] = encode(getattr(meta, part))
        except NotPlainError as error:
            raise ValueError(f"node '{meta.node.name}': '{part}' cannot be saved, it holds {error}") from None
    return data


def decode_meta(data: Mapping[str, Any], node: fx.Node) -> NodeMeta:
    meta = NodeMeta(node, annotated=data["annotated"])
    meta.op = meta.find_op() if meta.annotated else None
    meta.args = {name: _decode_tensor(tensor) for name, tensor in data["args"].items()}
    meta.results = {name: _decode_tensor(tensor) for name, tensor in data["results"].items()}
    meta.settings = decode(data["settings"])
    for part in _NOTES:
        setattr(meta, part, decode(data[part]))
    return meta


def _encode_tensor(tensor: TensorMeta) -> dict[str, Any]:
    return {
        "shape": tensor.shape,
        "dtype": encode_dtype(tensor.dtype),
        "format": encode_format(tensor.format),
        "held": tensor.held,
        "notes": encode(tensor.notes),
    }


def _decode_tensor(data: Mapping[str, Any]) -> TensorMeta:
    return TensorMeta(
        shape=list(data["shape"]),
        dtype=decode_dtype(data["dtype"]),
        format=decode_format(data["format"]),
        held=data["held"],
        notes=decode(data["notes"]),
    )
