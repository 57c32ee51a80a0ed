"""Annotation: one run of the graph that finds the op of each node and the shapes of its tensors."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from chop.ir.graph.capture.errors import no_messages_of_torch
from chop.ir.graph.in_place import writes_in_place
from chop.ir.graph.interpreter import (
    NodeInterpreter,
    bind_inputs,
    evaluation_mode,
    inputs_of,
    named_inputs,
    tensors_in,
    undisturbed,
)
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.meta import GRAPH_KINDS, NodeMeta, TensorMeta, largest_magnitude

logger = logging.getLogger(__name__)
_LARGE = 2**23
"""Parameters of a model from which shapes are computed without data."""


def init_metadata(graph: MaseGraph) -> None:
    """Add empty metadata to every node, as `node.meta["mase"]`."""
    for node in graph.fx_graph.nodes:
        node.meta["mase"] = NodeMeta(node)


def annotate(
    graph: MaseGraph,
    inputs: Mapping[str, Any],
    *,
    keep_values: bool = True,
    keep_ranges: bool = False,
    max_values: int | None = None,
) -> None:
    """Run `graph` on `inputs` (by argument name) and store each node's op, shapes, dtypes, values and ranges.

    If the results have more than `max_values` elements, ranges are kept instead of values. If neither are kept, the
    run uses tensors without data if possible.
    """
    metas = graph.metas()
    arguments = bind_inputs(graph, inputs)
    needs_data = keep_values or keep_ranges
    if needs_data or not _annotate_without_data(graph.model, metas, arguments):
        annotator = _Annotator(graph.model, keep_values, keep_ranges, max_values)
        with undisturbed(graph.model):
            annotator.run(*arguments)
        keep_values = annotator.keep_values
    if keep_values:
        for node, value in zip(inputs_of(graph), bind_inputs(graph, inputs), strict=True):
            node.meta["mase"].given = (value,)


def init_software_metadata(graph: MaseGraph) -> None:
    """Add an empty entry for statistics, `{"stat": {}}`, to every tensor of every node."""
    for meta in graph.annotated_metas():
        meta.software["args"] = {name: {"stat": {}} for name in meta.args}
        meta.software["results"] = {name: {"stat": {}} for name in meta.results}


def _annotate_without_data(model: fx.GraphModule, metas: list[NodeMeta], arguments: list[Any]) -> bool:
    """Annotate in a run that computes shapes only; return False if the graph needs data.

    Quantised layers and layers that are not in the op table may keep what they compute, and so need data.
    For a small model the run with data is faster: tensors without data need `torch._dynamo`, which takes 2 s to
    import.
    """
    if sum(parameter.numel() for parameter in model.parameters()) < _LARGE:
        return False
    if any(meta.quantized or (meta.module is not None and meta.find_op() is None) for meta in metas):
        return False
    try:
        with evaluation_mode(model), no_messages_of_torch(), FakeTensorMode(allow_non_fake_inputs=True) as fake:
            _Annotator(model).run(*pytree.tree_map_only(Tensor, fake.from_tensor, arguments))
    except Exception:  # the run with data shows whether it is an error
        logger.debug("annotating without data", exc_info=True)
        return False
    return True


class _Annotator(NodeInterpreter):
    """An interpreter that stores the tensors that go into each node and come out of it."""

    def __init__(
        self,
        model: fx.GraphModule,
        keep_values: bool = False,
        keep_ranges: bool = False,
        max_values: int | None = None,
    ) -> None:
        super().__init__(model)
        self.keep_values, self.keep_ranges = keep_values, keep_ranges
        self.max_values, self.num_values = max_values, 0
        self.by_storage: defaultdict[int, list[TensorMeta]] = defaultdict(list)
        """Stored values by their memory, to copy them before an in-place op overwrites it."""

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meta: NodeMeta = node.meta["mase"]
        module = meta.module
        meta.op = meta.find_op()
        meta.args = {name: self._note(tensor) for name, tensor in named_inputs(meta, args, kwargs).items()}
        if meta.op is not None:
            parameters = meta.op.parameters_of(module) if module is not None else {}
            meta.args |= {name: TensorMeta.of(value, is_parameter=True) for name, value in parameters.items()}
        meta.settings = meta.op.settings(module, args, kwargs) if meta.op is not None else {}
        meta.given = ()
        if not self.keep_values or node.op in GRAPH_KINDS:
            return
        if meta.op is None or writes_in_place(node, module):  # unknown ops may overwrite their input
            for tensor in tensors_in((args or tuple(kwargs.values()))[:1]):
                for noted in self.by_storage.pop(tensor.untyped_storage().data_ptr(), []):
                    if noted.value is not None:
                        noted.value = noted.value.clone()

    def after(self, node: fx.Node, result: Any) -> None:
        meta: NodeMeta = node.meta["mase"]
        meta.results = {f"data_out_{i}": self._note(tensor) for i, tensor in enumerate(tensors_in(result))}
        meta.annotated = True
        meta.note_formats()
        self.num_values += sum(tensor.numel for tensor in meta.results.values())
        if self.keep_values and self.max_values is not None and self.num_values > self.max_values:
            self._keep_ranges_only()

    def _keep_ranges_only(self) -> None:
        """Replace the values stored until now by their ranges, and store no more values."""
        self.keep_values, self.keep_ranges = False, True
        self.by_storage.clear()
        for node in self.graph.nodes:
            meta: NodeMeta = node.meta["mase"]
            for tensor in (*meta.args.values(), *meta.results.values()):
                if tensor.value is not None and tensor.value.is_floating_point():
                    tensor.largest = largest_magnitude(tensor.value)
                tensor.value = None

    def _note(self, tensor: Tensor) -> TensorMeta:
        noted = TensorMeta.of(tensor, keep_value=self.keep_values)
        if self.keep_ranges and tensor.is_floating_point():
            noted.largest = largest_magnitude(tensor)
        if noted.value is not None:
            self.by_storage[tensor.untyped_storage().data_ptr()].append(noted)
        return noted
