"""The metadata of a node: its op, its tensors and their formats, and the notes of passes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor, fx, nn

from chop.formats import Format
from chop.formats.float import Float
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.ops import OPS, Call, Op, Operand, op_of_function, op_of_method, op_of_module

GRAPH_KINDS = ("placeholder", "get_attr", "output")
UNKNOWN = "unknown"
NOTES = ("software", "hardware", "common", "notes", "arg_notes", "result_notes")
"""The fields of a NodeMeta that passes and users write to."""


class DictView(MutableMapping[str, Any]):
    """A dict whose `derived` keys are computed from typed fields; keys that users add are kept in `notes`.

    A copy is a plain dict, which no longer follows the fields.
    """

    def __init__(self, derived: Callable[[], dict[str, Any]], notes: dict[str, Any]) -> None:
        self._derived = derived
        self._notes = notes

    def __getitem__(self, key: str) -> Any:
        derived = self._derived()
        return derived[key] if key in derived else self._notes[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self._derived():
            raise ValueError(f"'{key}' is computed from the graph and cannot be set; add a different key")
        self._notes[key] = value

    def __delitem__(self, key: str) -> None:
        del self._notes[key]

    def __iter__(self) -> Iterator[str]:
        derived = self._derived()
        return iter([*derived, *(key for key in self._notes if key not in derived)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr(plain(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (plain(self),)


def plain(value: Any) -> Any:
    """Return the same content as ordinary nested dicts."""
    return {key: plain(item) for key, item in value.items()} if isinstance(value, DictView | dict) else value


@dataclass
class TensorMeta:
    """A tensor that goes into a node or comes out of it, as seen during annotation."""

    shape: list[int]
    dtype: torch.dtype
    format: Format = field(default_factory=Float)
    value: Tensor | None = field(default=None, repr=False)
    is_parameter: bool = False
    """Whether it is a parameter of the node's layer, from which its value is read."""
    largest: float | None = None
    """The largest magnitude, if it was kept instead of the value."""
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tensor: Tensor, *, keep_value: bool = False, is_parameter: bool = False) -> TensorMeta:
        """Return the metadata of a tensor in floating point."""
        value = tensor.detach() if keep_value else None
        return cls(list(tensor.shape), tensor.dtype, value=value, is_parameter=is_parameter)

    def describe_format(self) -> str:
        """Return ` integer(8, 4)` for a tensor in such a format; nothing for one in float32."""
        return "" if isinstance(self.format, Float) else f" {self.format}"

    @property
    def numel(self) -> int:
        return torch.Size(self.shape).numel()

    def copied(self) -> TensorMeta:
        """Return a copy that shares the value only."""
        return replace(self, notes=copy.deepcopy(self.notes))


def largest_magnitude(value: Tensor) -> float:
    """Return the largest magnitude of the elements of a tensor, 0 if it has none."""
    return value.abs().max().item() if value.numel() else 0.0


@dataclass(repr=False)
class NodeMeta:
    """The metadata of one node. `op` is None for inputs, attributes and outputs, and for unknown ops."""

    node: fx.Node
    annotated: bool = False
    op: Op | None = None
    args: dict[str, TensorMeta] = field(default_factory=dict)
    results: dict[str, TensorMeta] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """The attributes that the cost of the call depends on, such as `kernel_size`."""
    given: tuple[Any, ...] = ()
    """For an input: a tuple of its value during annotation, if values are kept; else empty."""
    software: dict[str, Any] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    common: dict[str, Any] = field(default_factory=dict)
    """Keys that users or passes added to `parameters["common"]`. The next three are for `parameters` itself, and
    for the dicts `args` and `results` in it."""
    notes: dict[str, Any] = field(default_factory=dict)
    arg_notes: dict[str, Any] = field(default_factory=dict)
    result_notes: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        given, results = self.describe_tensors()
        return f"NodeMeta({self.node.name}: {self.mase_op}; {given} -> {results})"

    def describe_tensors(self) -> tuple[str, str]:
        """Return the arguments and the results in short: `data_in_0 [8, 16] integer(8, 4), weight [5, 16]`."""
        given, results = (
            ", ".join(f"{name} {list(each.shape)}{each.describe_format()}" for name, each in table.items())
            for table in (self.args, self.results)
        )
        return given, results

    @property
    def model(self) -> fx.GraphModule:
        model = self.node.graph.owning_module
        assert model is not None, "a MaseGraph's fx graph always belongs to its model"
        return model

    @property
    def module(self) -> nn.Module | None:
        """The layer that the node calls; None if it calls none."""
        if self.node.op != "call_module":
            return None
        module: nn.Module | None = self.model
        for name in str(self.node.target).split("."):
            assert module is not None, f"{self.node.target} leads through a module that is None"
            module = module._modules[name]
        return module

    @property
    def quantized(self) -> QuantizedLayer | QuantizedCall | None:
        """The quantised layer or function that the node calls; None if it is not quantised."""
        target = self.module if self.node.op == "call_module" else self.node.target
        return target if isinstance(target, QuantizedLayer | QuantizedCall) else None

    @property
    def mase_type(self) -> str:
        return self.mase_op if self.op is None else self.op.mase_type

    @property
    def mase_op(self) -> str:
        if self.op is not None:
            return self.op.name
        return self.node.op if self.node.op in GRAPH_KINDS else UNKNOWN

    @property
    def operands(self) -> dict[str, Operand]:
        """The operands that can have a format: those with a role whose tensors hold real numbers."""
        if self.op is None or not self.op.operands:
            return {}
        present = {name: self.op.operand(name) for name in self.args}
        return {
            name: operand
            for name, operand in present.items()
            if operand is not None and operand.role is not None and self.args[name].dtype.is_floating_point
        }

    @property
    def quantizable(self) -> bool:
        return bool(self.operands)

    def find_op(self) -> Op | None:
        """Return the op table's entry for what the node calls."""
        target: Any = self.module if self.node.op == "call_module" else self.node.target
        if isinstance(target, QuantizedLayer | QuantizedCall):
            return target.op
        match self.node.op:
            case "call_module":
                return op_of_module(type(target))
            case "call_function":
                return OPS["outputs"] if isinstance(target, type) else op_of_function(target)
            case "call_method":
                return op_of_method(target)
            case _:
                return None

    def note_formats(self) -> None:
        """Store with each tensor the format that the node's quantised layer or call has for it."""
        quantized = self.quantized
        formats = quantized.formats if quantized is not None else {}
        for name, tensor in (*self.args.items(), *self.results.items()):
            tensor.format = formats[name] if name in formats else Float()

    def call(self) -> Call:
        """Return the node as a call whose cost can be counted."""
        assert self.op is not None, "only an op has a cost"
        shapes = {name: tuple(tensor.shape) for name, tensor in self.args.items()}
        results = tuple(tuple(tensor.shape) for tensor in self.results.values())
        return Call(shapes, results, self.settings)

    def value(self, name: str) -> Tensor | None:
        """Return the value of an argument or result: current for a parameter, from annotation for an activation."""
        tensor = self.args[name] if name in self.args else self.results[name]
        if tensor.is_parameter:
            parameter = cast("Tensor | None", attrgetter(name)(self.module))
            return None if parameter is None else parameter.detach()
        return tensor.value

    def largest(self, name: str) -> float | None:
        """Return the largest magnitude of an argument or result, 0 if it is empty; None if it is not known."""
        value = self.value(name)
        if value is None:
            return (self.args[name] if name in self.args else self.results[name]).largest
        return largest_magnitude(value)

    def scale_of(self, name: str) -> Tensor | None:
        """Return the learned or calibrated scale of an operand, as it is used; None if it has none."""
        quantized = self.quantized
        scale = None if quantized is None else quantized.scale_of(name)
        return None if quantized is None or scale is None else quantized.formats[name].step_of(scale.detach())

    @property
    def parameters(self) -> DictView:
        """The metadata as a dict with the keys `common`, `software` and `hardware`, for users."""

        def fields(name: str, tensor: TensorMeta) -> dict[str, Any]:
            return {
                "shape": list(tensor.shape),
                "torch_dtype": tensor.dtype,
                "type": tensor.format.name,
                "precision": tensor.format.precision,
                "value": self.value(name),
            }

        def entries(tensors: Mapping[str, TensorMeta]) -> dict[str, DictView]:
            return {name: DictView(partial(fields, name, each), each.notes) for name, each in tensors.items()}

        def common() -> dict[str, Any]:
            if not self.annotated:
                return {}
            return {
                "mase_type": self.mase_type,
                "mase_op": self.mase_op,
                "args": DictView(lambda: entries(self.args), self.arg_notes),
                "results": DictView(lambda: entries(self.results), self.result_notes),
            }

        def parts() -> dict[str, Any]:
            return {"common": DictView(common, self.common), "software": self.software, "hardware": self.hardware}

        return DictView(parts, self.notes)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "node": None}  # a pickled graph brings its own nodes

    def copied(self, node: fx.Node) -> NodeMeta:
        """Return a copy for another node. Values of activations are shared, everything else is copied."""
        return replace(
            self,
            node=node,
            args={name: tensor.copied() for name, tensor in self.args.items()},
            results={name: tensor.copied() for name, tensor in self.results.items()},
            **{part: copy.deepcopy(getattr(self, part)) for part in NOTES},
        )


def get_node_actual_target(node: fx.Node) -> Any:
    """Return the layer, function or tensor method that a node calls, the value of an attribute, else the name."""
    match node.op:
        case "call_module" | "get_attr":
            return attrgetter(str(node.target))(node.graph.owning_module)
        case "call_method":
            return getattr(Tensor, str(node.target))
        case _:
            return node.target


def metas(nodes: Iterable[fx.Node]) -> list[NodeMeta]:
    """Return the metadata of each node; raise an error that names the pass to run if there is none."""
    found = []
    for node in nodes:
        if "mase" not in node.meta:
            raise ValueError(f"node '{node.name}' has no metadata yet; run init_metadata_analysis_pass first")
        found.append(cast(NodeMeta, node.meta["mase"]))
    return found


def annotated_batch_size(metas: Iterable[NodeMeta]) -> int:
    """Return the number of rows that a graph was annotated with; 1 if it has no input with dimensions."""
    inputs = (tensor for meta in metas if meta.node.op == "placeholder" for tensor in meta.results.values())
    return next((tensor.shape[0] for tensor in inputs if tensor.shape), 1)
