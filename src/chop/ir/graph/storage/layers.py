"""Modules as JSON and tensors, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from chop.formats import Format
from chop.ir.graph.storage.values import NotPlainError, decode, decode_format, encode, encode_format
from chop.nn.quantized import QuantizedLayer, quantize_layer

_INTERNAL = frozenset(vars(nn.Module())) | {"formats"}
_KINDS = (("parameters", "_parameters"), ("buffers", "_buffers"))


class TensorStore:
    """Tensors by path. One that several modules share is stored once, and is one again when it is read."""

    def __init__(self, tensors: dict[str, Tensor] | None = None) -> None:
        self.tensors = {} if tensors is None else tensors
        self._paths: dict[int, str] = {}
        self._parameters: dict[str, nn.Parameter] = {}

    def put(self, path: str, tensor: Tensor) -> dict[str, Any]:
        path = self._paths.setdefault(id(tensor), path)
        self.tensors[path] = tensor.detach()
        is_parameter = isinstance(tensor, nn.Parameter)
        return {"tensor": path, "requires_grad": tensor.requires_grad} if is_parameter else {"tensor": path}

    def get(self, record: Mapping[str, Any]) -> Tensor:
        path = record["tensor"]
        if path not in self.tensors:
            raise ValueError(f"the weights lack '{path}'")
        if "requires_grad" not in record:
            return self.tensors[path]
        new = nn.Parameter(self.tensors[path], requires_grad=record["requires_grad"])
        return self._parameters.setdefault(path, new)


def encode_module(module: nn.Module, path: str, store: TensorStore, called: frozenset[str]) -> dict[str, Any]:
    """A module and all below it; `called` are the paths of those that nodes call.

    A called module that only its own code can build is marked `foreign`. What is not called holds state only.
    """
    record: dict[str, Any] = {"training": module.training}
    base = module.base_class if isinstance(module, QuantizedLayer) else type(module)
    if isinstance(module, QuantizedLayer):
        label = type(module).__name__.removeprefix(base.__name__)
        record["quantized"] = {"label": label, "formats": encode_formats(module.formats)}
    if not any(path == c or path.startswith(f"{c}.") for c in called):
        record |= {"class": "Module", "attributes": {}}
    else:
        record |= _encode_kind(module, base)
    for kind, holder in _KINDS:
        held = vars(module)[holder].items()
        record[kind] = {n: None if t is None else store.put(_join(path, n), t) for n, t in held}
    record["not_saved"] = sorted(module._non_persistent_buffers_set)
    children = module._modules.items()
    record["modules"] = {n: encode_module(m, _join(path, n), store, called) for n, m in children if m}
    return record


def _encode_kind(module: nn.Module, base: type[nn.Module]) -> dict[str, Any]:
    foreign = {"foreign": f"{base.__module__}.{base.__qualname__}"}
    if _torch_class(base.__name__) is not base:
        return foreign
    try:
        attributes = {key: encode(value) for key, value in vars(module).items() if key not in _INTERNAL}
    except NotPlainError:
        return foreign
    return {"class": base.__name__, "attributes": attributes}


def decode_module(record: Mapping[str, Any], path: str, store: TensorStore) -> nn.Module:
    """The module that `encode_module` was given, built without running any constructor."""
    if "foreign" in record:
        raise ValueError(
            f"module '{path}' is a {record['foreign']}, which only the model's own code can build: "
            "load into a graph of the model, load_mase_graph_interface_pass(MaseGraph(model), ...)"
        )
    cls = _torch_class(record["class"])
    if cls is None:
        raise ValueError(f"module '{path}': torch.nn has no '{record['class']}'")
    module = cls.__new__(cls)
    nn.Module.__init__(module)
    for name, value in record["attributes"].items():
        if name in _INTERNAL:
            raise ValueError(f"module '{path}': '{name}' cannot be set")
        vars(module)[name] = decode(value)
    for kind, holder in _KINDS:
        for name, tensor in record[kind].items():
            vars(module)[holder][name] = None if tensor is None else store.get(tensor)
    module._non_persistent_buffers_set = set(record["not_saved"])
    for name, child in record["modules"].items():
        module._modules[_segment(name)] = decode_module(child, _join(path, name), store)
    if "quantized" in record:
        module = requantize(module, record["quantized"])
    module.training = record["training"]
    return module


def requantize(module: nn.Module, record: Mapping[str, Any]) -> QuantizedLayer:
    """Put the formats of a `quantized` record on a layer."""
    return quantize_layer(module, decode_formats(record["formats"]), record["label"])


def encode_formats(formats: Mapping[str, Format]) -> dict[str, Any]:
    return {name: encode_format(number_format) for name, number_format in formats.items()}


def decode_formats(records: Mapping[str, Any]) -> dict[str, Format]:
    return {name: decode_format(record) for name, record in records.items()}


def check_path(path: str) -> str:
    """A path of modules; anything else could end up as code in fx's generated forward."""
    for segment in path.split("."):
        _segment(segment)
    return path


def _segment(name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise ValueError(f"'{name}' is no name of a module")
    return name


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _torch_class(name: str) -> type[nn.Module] | None:
    found = getattr(nn, name, None)
    return found if isinstance(found, type) and issubclass(found, nn.Module) else None


def modules_of(record: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Every module record below one, with its path."""
    yield path, record
    for name, child in record["modules"].items():
        yield from modules_of(child, _join(path, name))
