"""Conversion of modules to JSON and tensors, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from chop.formats import FORMATS, Format
from chop.ir.graph.graph_module import has_hooks
from chop.ir.graph.model_state import join
from chop.ir.graph.storage.checks import segment
from chop.ir.graph.storage.values import NotPlainError, decode, decode_format, encode, encode_format
from chop.nn.quantized import QuantizedLayer, plain_layer, quantize_layer
from chop.ops import foreign_module

KINDS = (("parameters", "_parameters"), ("buffers", "_buffers"))
_INTERNAL = frozenset(vars(nn.Module()))
_DERIVED = frozenset(("_flat_weights", "_flat_weight_refs"))
"""Attributes of recurrent layers that refer to their parameters."""


class TensorStore:
    """Tensors by path. A tensor that several modules share is stored once, and shared again when it is read."""

    def __init__(self, tensors: dict[str, Tensor] | None = None) -> None:
        self.tensors = {} if tensors is None else tensors
        self._paths: dict[int, str] = {}
        self._parameters: dict[str, nn.Parameter] = {}

    def put(self, path: str, tensor: Tensor) -> dict[str, Any]:
        """Store a tensor and return its JSON record."""
        path = self._paths.setdefault(id(tensor), path)
        self.tensors[path] = tensor.detach()
        is_parameter = isinstance(tensor, nn.Parameter)
        return {"tensor": path, "requires_grad": tensor.requires_grad} if is_parameter else {"tensor": path}

    def path_of(self, tensor: Tensor) -> str:
        """Return the path under which a tensor was stored."""
        return self._paths[id(tensor)]

    def get(self, record: Mapping[str, Any]) -> Tensor:
        """Return the tensor of a JSON record."""
        path = record["tensor"]
        if path not in self.tensors:
            raise ValueError(f"the weights have no entry '{path}'")
        if "requires_grad" not in record:
            return self.tensors[path]
        new = nn.Parameter(self.tensors[path], requires_grad=record["requires_grad"])
        return self._parameters.setdefault(path, new)


def encode_module(
    module: nn.Module, path: str, store: TensorStore, called: frozenset[str], runs: bool = False
) -> dict[str, Any]:
    """Return the JSON record of a module and its submodules; `called` are the paths of modules that nodes call.

    A called module, or one inside it, that only the user's code can build is marked `foreign`. Modules that are
    not called need no more than their state.
    """
    runs = runs or path in called
    record: dict[str, Any] = {"training": module.training}
    kind = _encode_kind(plain_layer(module) if isinstance(module, QuantizedLayer) else module)
    if "foreign" in kind and not runs:
        record |= {"class": "Module", "attributes": {}}
    else:
        record |= kind
        if isinstance(module, QuantizedLayer):
            label = type(module).__name__.removeprefix(module.base_class.__name__)
            formats = encode_formats(module.formats)
            record["quantized"] = {"label": label, "formats": formats, "writes_back": module.writes_back}
    for key, holder in KINDS:
        tensors = vars(module)[holder].items()
        record[key] = {segment(n): None if t is None else store.put(join(path, n), t) for n, t in tensors}
    record["not_saved"] = sorted(module._non_persistent_buffers_set)
    children = {segment(n): child for n, child in module._modules.items() if child is not None}
    record["modules"] = {n: encode_module(m, join(path, n), store, called, runs) for n, m in children.items()}
    return record


def _encode_kind(module: nn.Module) -> dict[str, Any]:
    cls = type(module)
    name = f"{cls.__module__}.{cls.__qualname__}"
    if has_hooks(module):
        return {"foreign": f"{name} with hooks"}
    attributes = {key: value for key, value in vars(module).items() if key not in _INTERNAL | _DERIVED}
    known = cls.__name__ if _layer_class(cls.__name__) is cls else name
    if _layer_class(known) is not cls or any(hasattr(cls, key) for key in attributes):
        return {"foreign": name}
    try:
        return {"class": known, "attributes": {key: encode(value) for key, value in attributes.items()}}
    except NotPlainError:
        return {"foreign": name}


def decode_module(record: Mapping[str, Any], path: str, store: TensorStore) -> nn.Module:
    """Return the module of a record, built without running any constructor."""
    module = _empty(record, f"module '{path}'" if path else "the model")
    # torch itself rejects names that the class already has, such as `forward`.
    for name, parameter in record["parameters"].items():
        value = None if parameter is None else store.get(parameter)
        if not isinstance(value, nn.Parameter | None):
            raise ValueError(f"'{parameter['tensor']}' is not a parameter")
        module.register_parameter(segment(name), value)
    for name, buffer in record["buffers"].items():
        persistent = name not in record["not_saved"]
        module.register_buffer(segment(name), None if buffer is None else store.get(buffer), persistent)
    for name, child in record["modules"].items():
        module.add_module(segment(name), decode_module(child, join(path, name), store))
    if isinstance(module, nn.RNNBase):
        module._init_flat_weights()
    if "quantized" in record:
        module = requantize(module, record["quantized"])
    module.training = bool(record["training"])
    return module


def _empty(record: Mapping[str, Any], where: str) -> nn.Module:
    """Return a module with its attributes only, which are plain data and cannot hide what its class defines."""
    if "foreign" in record:
        raise ValueError(
            f"{where} is {record['foreign']}, which only the model's own code can build: "
            "load into a graph of the model, load_mase_graph_interface_pass(MaseGraph(model), ...)"
        )
    cls = _layer_class(record["class"])
    if cls is None:
        raise ValueError(f"{where}: torch.nn has no '{record['class']}'")
    module = cls.__new__(cls)
    nn.Module.__init__(module)
    for name, value in record["attributes"].items():
        if name in _INTERNAL or hasattr(cls, name):
            raise ValueError(f"{where}: '{name}' cannot be set")
        vars(module)[name] = decode(value)
    return module


def requantize(module: nn.Module, record: Mapping[str, Any]) -> QuantizedLayer:
    """Return the layer with the formats of a `quantized` record."""
    labels = [number_format.__name__ for number_format in FORMATS.values()]
    if record["label"] not in labels:
        raise ValueError(f"there is no format '{record['label']}'")
    layer = quantize_layer(module, decode_formats(record["formats"]), record["label"])
    layer.writes_back = bool(record.get("writes_back"))
    return layer


def encode_formats(formats: Mapping[str, Format]) -> dict[str, Any]:
    """Return the JSON records of formats by operand."""
    return {name: encode_format(number_format) for name, number_format in formats.items()}


def decode_formats(records: Mapping[str, Any]) -> dict[str, Format]:
    """Return the formats by operand from their JSON records."""
    return {name: decode_format(record) for name, record in records.items()}


def _layer_class(name: str) -> type[nn.Module] | None:
    """Return the layer class of torch with this name, or the class of the op table with this qualified name."""
    found = foreign_module(name) or getattr(nn, name, None) or getattr(nn.modules.linear, name, None)
    return found if isinstance(found, type) and issubclass(found, nn.Module) else None


def modules_of(record: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield a module record and those of all its submodules, with their paths."""
    yield path, record
    for name, child in record["modules"].items():
        yield from modules_of(child, join(path, name))
