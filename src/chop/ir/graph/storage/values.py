"""Conversion of Python values to JSON and back. Plain data only: reading a file never runs code from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from chop.formats import FORMATS, Format, parameters
from chop.ir.graph.graph_module import NodeRef
from chop.ir.graph.meta import DictView, plain
from chop.ops import function_named, op_of_function, qualified_name
from chop.options import read_options

T = TypeVar("T")


class NotPlainError(ValueError):
    """A value that has no JSON form."""


def encode(value: Any) -> Any:
    """Return `value` as JSON. A type that JSON lacks becomes a dict with one tag: `{"tuple": [...]}`."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case torch.Size() | tuple():
            return {"tuple": [encode(item) for item in value]}
        case list():
            return [encode(item) for item in value]
        case DictView() | dict():
            if not all(isinstance(key, str) for key in value):
                raise NotPlainError(f"a dict whose keys are not all strings: {plain(value)!r}")
            return {"dict": {key: encode(item) for key, item in value.items()}}
        case slice():
            return {"slice": [encode(part) for part in (value.start, value.stop, value.step)]}
        case NodeRef():
            return {"node": value.name}
        case torch.dtype():
            return {"dtype": encode_dtype(value)}
        case torch.device():
            return {"device": str(value)}
        case torch.layout():
            return {"layout": str(value).removeprefix("torch.")}
        case torch.memory_format():
            return {"memory_format": str(value).removeprefix("torch.")}
        case Tensor():
            return {"tensor": value.tolist(), "of": encode_dtype(value.dtype)}
        case _ if callable(value) and op_of_function(value) is not None:
            return {"function": qualified_name(value)}
        case _ if value is Ellipsis:
            return {"ellipsis": None}
        case _:
            raise NotPlainError(f"a value of type {type(value).__name__}: {value!r}")


def decode(value: Any) -> Any:
    """Return the value that `encode` was given."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), None)
    if tag not in _DECODERS:
        raise ValueError(f"unknown kind of value '{tag}'")
    return _DECODERS[tag](value)


_DECODERS: Mapping[Any, Callable[[dict[str, Any]], Any]] = {
    "tuple": lambda v: tuple(decode(item) for item in v["tuple"]),
    "dict": lambda v: {key: decode(item) for key, item in v["dict"].items()},
    "slice": lambda v: slice(*(decode(part) for part in v["slice"])),
    "node": lambda v: NodeRef(v["node"]),
    "dtype": lambda v: decode_dtype(v["dtype"]),
    "device": lambda v: decode_device(v["device"]),
    "layout": lambda v: _constant(v["layout"], torch.layout),
    "memory_format": lambda v: _constant(v["memory_format"], torch.memory_format),
    "tensor": lambda v: torch.tensor(v["tensor"], dtype=decode_dtype(v["of"])),
    "function": lambda v: _function(v["function"]),
    "ellipsis": lambda v: ...,
}


def encode_dtype(dtype: torch.dtype) -> str:
    """Return the name of a dtype, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def decode_dtype(name: str) -> torch.dtype:
    """Return the dtype of that name."""
    return _constant(name, torch.dtype)


def decode_device(name: str) -> torch.device:
    """Return the device of that name, if this machine has it."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # an AssertionError if torch was built without CUDA
        raise ValueError(f"this machine has no device '{name}'") from error


def _constant(name: str, kind: type[T]) -> T:
    """Return the torch constant of the given type and name."""
    found = getattr(torch, name, None)
    if not isinstance(found, kind):
        raise ValueError(f"unknown {kind.__name__} '{name}'")
    return found


def _function(name: str) -> Callable[..., Any]:
    found = function_named(name)
    if found is None:
        raise ValueError(f"function '{name}' is not in the op table")
    return found


def encode_format(number_format: Format) -> dict[str, Any]:
    """Return the name and parameters of a format as JSON."""
    values = {p.name: getattr(number_format, p.name) for p in parameters(type(number_format))}
    return {"name": number_format.name, **{key: encode(value) for key, value in values.items()}}


def decode_format(record: Mapping[str, Any]) -> Format:
    """Return the format of a JSON record."""
    name = record["name"]
    values = {key: decode(value) for key, value in record.items() if key != "name"}
    return read_options(FORMATS[name], values, f"format '{name}'")
