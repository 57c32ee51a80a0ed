"""Annotation: one run of the graph that finds the op of each node and the shapes of its tensors."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, fx, nn
from torch._ops import OpOverload
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
from chop.ir.graph.kinds import UnknownKindError, kind_of, kind_of_layer
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.meta import GRAPH_KINDS, NodeMeta, TensorMeta, largest_magnitude
from chop.ops import Op

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
            _AnnotatorWithoutData(model).run(*pytree.tree_map_only(Tensor, fake.from_tensor, arguments))
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
            meta.args |= self._parameters(meta.op, module)
        meta.settings = meta.op.settings(module, args, kwargs) if meta.op is not None else {}
        meta.given = ()
        if self.keep_values and _may_overwrite(meta, module):
            self._save_from_overwriting(args or tuple(kwargs.values()))

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

    def _parameters(self, op: Op, module: nn.Module | None) -> dict[str, TensorMeta]:
        """Return the operands that are parameters of the layer."""
        if module is None:
            return {}
        return {
            name: TensorMeta.of(value, keep_value=self.keep_values, is_parameter=True)
            for name, value in op.parameters_of(module).items()
        }

    def _note(self, tensor: Tensor) -> TensorMeta:
        noted = TensorMeta.of(tensor, keep_value=self.keep_values)
        if self.keep_ranges and tensor.is_floating_point():
            noted.largest = largest_magnitude(tensor)
        if noted.value is not None:
            self.by_storage[tensor.untyped_storage().data_ptr()].append(noted)
        return noted

    def _save_from_overwriting(self, args: tuple[Any, ...]) -> None:
        """Copy the stored values that share memory with the first argument, before an op overwrites it."""
        for tensor in tensors_in(args[:1]):
            for noted in self.by_storage.pop(tensor.untyped_storage().data_ptr(), []):
                if noted.value is not None:
                    noted.value = noted.value.clone()


class _AnnotatorWithoutData(_Annotator):
    """An annotator that computes each result once: another node of the same kind gets the same tensors.

    That is not possible if functions such as `unsqueeze_` change the shapes of tensors.
    """

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.results: dict[Hashable, Any] = {}
        calls = (node for node in model.graph.nodes if node.op in ("call_function", "call_method"))
        self.may_share = not any(writes_in_place(node, None) for node in calls)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = partial(super().call_function, target, args, kwargs)
        if not isinstance(target, OpOverload):
            return run()
        return self._once(lambda: target, args, kwargs, run)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = self.fetch_attr(target)
        run = partial(super().call_module, target, args, kwargs)
        return self._once(lambda: kind_of_layer(module), args, kwargs, run)

    def _once(
        self, kind: Callable[[], Hashable], args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        if not self.may_share:
            return run()
        try:
            key = (kind(), kind_of((args, kwargs), []))
        except UnknownKindError:
            return run()
        if key not in self.results:
            self.results[key] = run()
        return self.results[key]


def _may_overwrite(meta: NodeMeta, module: nn.Module | None) -> bool:
    """Whether a node may overwrite its input; unknown ops may."""
    if meta.op is None:
        return meta.node.op not in GRAPH_KINDS
    return writes_in_place(meta.node, module)
