"""The profiler: an interpreter that updates statistics with the activations of a model."""

from __future__ import annotations

import copy
import logging
import weakref
from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx

from chop.ir import NodeMeta
from chop.ir.graph.interpreter import NodeInterpreter, named_inputs, tensors_in
from chop.ir.graph.meta import get_node_actual_target
from chop.statistics.joint_moments import JointMoments, shared_layout
from chop.statistics.profile import (
    Collection,
    Options,
    Profile,
    TensorKey,
    make_statistics,
    update,
)

logger = logging.getLogger(__name__)


def weights_of(meta: NodeMeta) -> dict[str, Tensor]:
    """Return a node's weight and bias: a layer's parameters, or attributes that a function is called with."""
    parameters = {name: meta.value(name) for name, tensor in meta.args.items() if tensor.is_parameter}
    found = {name: value for name, value in parameters.items() if value is not None}
    if meta.op is not None and meta.module is None:
        for name, operand, source in meta.op.bound(meta.node.args, meta.node.kwargs):
            is_attribute = isinstance(source, fx.Node) and source.op == "get_attr"
            if is_attribute and operand.role in ("weight", "bias"):
                found[name] = get_node_actual_target(source)
    return found


class Profiler(NodeInterpreter):
    """An interpreter that collects a profile of the inputs and outputs of the chosen nodes."""

    def __init__(
        self,
        model: fx.GraphModule,
        chosen: Mapping[fx.Node, NodeMeta],
        weights: Mapping[fx.Node, Mapping[str, Tensor]],
        options: Options,
        outputs: bool,
    ) -> None:
        """Start a profile. `weights` are inputs of chosen nodes to leave out; `outputs` adds their outputs."""
        super().__init__(model)
        self.profile = Profile()
        self._chosen, self._weights, self._outputs = chosen, weights, outputs
        self._empty = make_statistics(options, "activation_statistics")
        self._layout = shared_layout(self._empty.values())
        self._joint: JointMoments | None = None
        self._batch: dict[TensorKey, Collection] = {}
        self._measured: dict[int, tuple[weakref.ref[Tensor], int, Collection]] = {}
        self._complex: set[TensorKey] = set()

    def profile_batch(self, inputs: list[Any], num_samples: int) -> None:
        """Run a batch and add its activations to the profile."""
        self._batch = {}
        self._joint = None if self._layout is None else JointMoments(self._empty, self._layout)
        self.run(*inputs)
        self._measured = {}
        if self._joint is not None:
            self._joint.make_statistics()
        # Nodes that share a tensor in one batch may not in the next; merging then separates their statistics.
        self.profile.merge(Profile(self._batch, num_samples))

    def fetch_attr(self, target: str) -> Any:
        module = self.submodules.get(target)  # fx itself goes from the root to it, step by step
        return super().fetch_attr(target) if module is None else module

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if node in self._chosen:
            for entry, tensor in named_inputs(self._chosen[node], args, kwargs).items():
                if entry not in self._weights[node]:
                    self._profile(TensorKey(node.name, "args", entry), tensor)

    def after(self, node: fx.Node, result: Any) -> None:
        if self._outputs and node in self._chosen:
            for i, tensor in enumerate(tensors_in(result)):
                self._profile(TensorKey(node.name, "results", f"data_out_{i}"), tensor)

    def _profile(self, key: TensorKey, tensor: Tensor) -> None:
        if tensor.is_complex():
            if key not in self._complex:
                logger.warning("'%s' of node '%s' is complex and not profiled", key.entry, key.node)
            self._complex.add(key)
            return
        collection = self._known(tensor)
        if collection is None:
            collection = None if self._joint is None else self._joint.measure(tensor)
            if collection is None:
                collection = {name: copy.copy(statistic) for name, statistic in self._empty.items()}
                update(collection, tensor, key)
            if not tensor.is_inference():  # inference tensors have no version counter
                self._measured[id(tensor)] = (weakref.ref(tensor), tensor._version, collection)
        self._batch[key] = collection

    def _known(self, tensor: Tensor) -> Collection | None:
        """Return the statistics of this tensor object, if it was measured in this batch and not modified since."""
        reference, version, collection = self._measured.get(id(tensor), (None, 0, None))
        same = reference is not None and reference() is tensor and tensor._version == version
        return collection if same else None
