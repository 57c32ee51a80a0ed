"""From a graph to the nodes of an ONNX graph."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from chop.exporting.export import CannotExportError
from chop.exporting.onnx_graph.builder import Name, OnnxBuilder
from chop.exporting.onnx_graph.call import OnnxCall, Plain, Quantizer, Ref
from chop.exporting.onnx_graph.lowering import LOWERINGS
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.in_place import writes_in_place
from chop.ir.graph.interpreter import NodeInterpreter, bind_inputs, undisturbed
from chop.ir.graph.meta import get_node_actual_target

logger = logging.getLogger(__name__)
ROWS = (2, 3)
"""The numbers of rows of the two runs."""
_RANDOM = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli")


@dataclass(frozen=True)
class Lowered:
    """An ONNX graph as plain data."""

    builder: OnnxBuilder
    inputs: dict[str, Ref]
    outputs: dict[str, Ref]
    results: dict[str, Ref]
    """The tensor that each fx node returns, by the name of the node."""


@dataclass(frozen=True)
class Recording:
    """The results of all nodes in a run, and in a second run with another number of rows."""

    results: Mapping[fx.Node, Any]
    others: Mapping[fx.Node, Any] | None
    """None if the graph is fixed to one number of rows."""

    def is_same(self, node: fx.Node) -> bool:
        """Whether a result that is not a tensor is the same for all batches."""
        return self.others is None or bool(self.results[node] == self.others[node])


def lower(graph: MaseGraph, batch: Mapping[str, Any], quantizer: Quantizer) -> Lowered:
    """Return the ONNX graph; `batch` is an example of the inputs, and other batches may have more or fewer rows."""
    lowered = _Lowering(graph, record(graph, batch), quantizer).run()
    sizes = {len(value) for value in batch.values() if isinstance(value, Tensor) and value.dim()}
    if len(sizes) == 1:
        return lowered

    def separate(refs: dict[str, Ref]) -> dict[str, Ref]:
        """Return inputs or outputs whose first dimensions are not related."""
        return {name: replace(ref, has_batch=False) for name, ref in refs.items()}

    return Lowered(lowered.builder, *map(separate, (lowered.inputs, lowered.outputs, lowered.results)))


class _Lowering:
    """The state while nodes are added, in the order of the fx graph."""

    def __init__(self, graph: MaseGraph, recording: Recording, quantizer: Quantizer) -> None:
        self.graph, self.recording, self.quantizer = graph, recording, quantizer
        self.builder = OnnxBuilder()
        self.constants = constant_nodes(graph)
        self.values: dict[fx.Node, Any] = {}
        """For each node a `Ref`, a constant tensor, or nested tuples, lists and dicts of these and plain values."""
        self.inputs: dict[str, Ref] = {}
        self.results: dict[str, Ref] = {}
        self.outputs: dict[str, Ref] = {}

    def run(self) -> Lowered:
        for node in self.graph.fx_graph.nodes:
            if node.op == "placeholder":
                self.builder.unique(str(node.target))
            if node.op == "output":
                value = node.args[0]
                if isinstance(value, fx.Node) and isinstance(value.target, type):  # a dataclass of outputs
                    value = dict(value.kwargs)
                for name in _named_leaves(value, "output"):
                    self.builder.unique(name)
        for meta in self.graph.metas():
            with self.builder.owned_by(meta.node.name):
                self.values[meta.node] = self._value(meta)
        return Lowered(self.builder, self.inputs, self.outputs, self.results)

    def _value(self, meta: NodeMeta) -> Any:
        node = meta.node
        result = self.recording.results.get(node)
        if node.op == "placeholder":
            return self._input(node, result)
        if node.op == "output":
            return self._output(self._mapped(node.args[0]))
        if node.op == "get_attr":
            return get_node_actual_target(node)
        if node in self.constants or (_is_plain(result) and self.recording.is_same(node)):
            return result
        return self._call(meta)

    def _input(self, node: fx.Node, value: Any) -> Any:
        if not isinstance(value, Tensor):
            if all(
                leaf is None or isinstance(leaf, bool | int | float | str) for leaf in pytree.tree_leaves(value)
            ):
                return value
            raise CannotExportError(node.name, self.quantizer.target, "an input is not a tensor")
        others = self.recording.others
        name = str(node.target)
        self.inputs[name] = ref = _ref(name, value, None if others is None else others[node])
        return ref

    def _mapped(self, arguments: Any) -> Any:
        return fx.map_arg(arguments, lambda each: self.values[each])

    def _call(self, meta: NodeMeta) -> Any:
        node = meta.node
        op = meta.find_op()
        if op is None:
            what = meta.module if meta.module is not None else node.target
            name = getattr(what, "__name__", type(what).__name__)
            raise CannotExportError(node.name, self.quantizer.target, f"'{name}' is not in the op table")
        if op.name not in LOWERINGS:
            raise CannotExportError(node.name, self.quantizer.target, f"ONNX has no nodes for the op '{op.name}'")
        result = self.recording.results[node]
        other = None if self.recording.others is None else self.recording.others[node]
        arguments = (self._mapped(node.args), self._mapped(node.kwargs))
        call = OnnxCall(self.builder, replace(meta, op=op), arguments, self.quantizer, result, other)
        lowered = LOWERINGS[op.name](call)
        value = self._referred(call, lowered, result, other)
        if isinstance(value, Ref) and value.name not in self.inputs:
            self.results.setdefault(node.name, value)
        if writes_in_place(node, meta.module) and node.args and isinstance(node.args[0], fx.Node):
            self.values[node.args[0]] = value
        return value

    def _referred(self, call: OnnxCall, lowered: Any, result: Any, other: Any) -> Any:
        """Return what a lowering returned with the shapes and types of the results."""
        if isinstance(lowered, Plain):
            return lowered.value
        if isinstance(lowered, tuple):
            first = call.rounded_result(lowered[0]) if isinstance(lowered[0], str) else lowered[0]
            return self._ref((first, *lowered[1:]), result, other)
        if isinstance(lowered, str):
            lowered = call.rounded_result(lowered)
            return self._named(call.meta.node.name, self._ref(lowered, result, other))
        return lowered

    def _ref(self, name: Any, result: Any, other: Any) -> Any:
        if isinstance(name, tuple):
            others = [None] * len(name) if other is None else other
            return tuple(self._ref(*each) for each in zip(name, result, others, strict=True))
        return _ref(name, result, other) if isinstance(name, str) else name

    def _named(self, node: str, ref: Ref) -> Ref:
        """Return a result under the name of its fx node; one that another node computes is copied."""
        own = itertools.takewhile(lambda each: each.owner == node, reversed(self.builder.nodes))
        if not any(ref.name in each.outputs for each in own):
            ref = replace(ref, name=self.builder.node("Identity", ref.name))
        named = self.builder.unique(node)
        self._rename(ref.name, named)
        renamed = replace(ref, name=named)
        self.results[node] = renamed
        return renamed

    def _rename(self, old: Name, new: Name) -> None:
        nodes = self.builder.nodes
        for i in range(len(nodes) - 1, -1, -1):
            if old in (*nodes[i].inputs, *nodes[i].outputs):
                inputs, outputs = (
                    tuple(new if name == old else name for name in names)
                    for names in (nodes[i].inputs, nodes[i].outputs)
                )
                nodes[i] = replace(nodes[i], inputs=inputs, outputs=outputs)
            if new in nodes[i].outputs:
                return

    def _output(self, value: Any) -> Any:
        """Give the outputs their names: those of a dict or dataclass, `output`, or `output_0`, `output_1`, ..."""
        for name, leaf in _named_leaves(value, "output").items():
            if isinstance(leaf, Tensor):
                leaf = Ref(self.builder.constant(leaf), tuple(leaf.shape), leaf.dtype)
            if isinstance(leaf, Ref):
                self._rename(self.builder.node("Identity", leaf.name), name)
                self.outputs[name] = replace(leaf, name=name)
        return value


def _ref(name: Name, value: Tensor, other: Tensor | None) -> Ref:
    has_batch = other is not None and value.dim() > 0 and (len(value), len(other)) == ROWS
    return Ref(name, free_shape(value, other), value.dtype, has_batch)


def _is_plain(result: Any) -> bool:
    """Whether a result holds no tensor."""
    parts = dict(result) if isinstance(result, dict) else result  # pytree does not open classes of dicts
    return not any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(parts))


def _named_leaves(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for k, part in value.items() for key, leaf in _named_leaves(part, str(k)).items()}
    if isinstance(value, list | tuple):
        parts = [_named_leaves(part, f"{name}_{i}") for i, part in enumerate(value)]
        return {key: leaf for part in parts for key, leaf in part.items()}
    return {name: value}


def free_shape(value: Tensor, other: Tensor | None) -> tuple[int | None, ...]:
    """Return a shape with None for sizes that differ in a second run."""
    if other is None:
        return tuple(value.shape)
    return tuple(n if n == m else None for n, m in zip(value.shape, other.shape, strict=True))


def record(graph: MaseGraph, batch: Mapping[str, Any]) -> Recording:
    """Run the graph with two rows and with three rows of a batch; with the batch as it is if that fails."""
    try:
        first, second = (_run(graph, _rows(batch, [0, -1, 0][:count])) for count in ROWS)
        return Recording(first, second)
    except (ValueError, RuntimeError, IndexError):
        logger.debug("the graph does not run on batches of any size", exc_info=True)
        return Recording(_run(graph, batch), None)


def constant_nodes(graph: MaseGraph) -> set[fx.Node]:
    """Return the nodes whose results do not depend on the inputs."""
    found: set[fx.Node] = set()
    for meta in graph.metas():
        node = meta.node
        if node.op in ("placeholder", "output") or meta.mase_op in _RANDOM:
            continue
        if all(each in found for each in node.all_input_nodes):
            found.add(node)
    return found


def _rows(batch: Mapping[str, Any], index: list[int]) -> dict[str, Any]:
    return {
        name: value[index] if isinstance(value, Tensor) and value.dim() else value for name, value in batch.items()
    }


def _run(graph: MaseGraph, batch: Mapping[str, Any]) -> dict[fx.Node, Any]:
    results: dict[fx.Node, Any] = {}
    interpreter = NodeInterpreter(graph.model)
    with undisturbed(graph.model):
        for node in interpreter.steps(*bind_inputs(graph, batch)):
            # A later node may overwrite the tensor in place.
            results[node] = pytree.tree_map_only(Tensor, torch.clone, interpreter.env[node])
    return results
