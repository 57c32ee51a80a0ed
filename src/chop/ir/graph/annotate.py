"""One run of the graph that finds the op of each node and the shapes of its tensors."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx

from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.meta import NodeMeta, TensorMeta
from chop.ir.graph.run import Runner, bind_inputs, tensors_in, undisturbed


def annotate(graph: MaseGraph, inputs: Mapping[str, Any], *, keep_values: bool = True) -> None:
    """Run `graph` on `inputs` (by argument name) and note op, shapes, dtypes and values on each node."""
    graph.metas()
    arguments = bind_inputs(graph, inputs)
    with undisturbed(graph.model):
        _Annotator(graph.model, keep_values).run(*arguments)


class _Annotator(Runner):
    """Notes what goes into each node and what comes out."""

    def __init__(self, model: fx.GraphModule, keep_values: bool) -> None:
        super().__init__(model)
        self.keep_values = keep_values
        self.by_storage: defaultdict[int, list[TensorMeta]] = defaultdict(list)
        """Noted values by the memory they lie in, for the sake of in-place ops."""

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meta: NodeMeta = node.meta["mase"]
        meta.op = meta.find_op()
        meta.args = self._arguments(meta, args, kwargs)
        meta.settings = meta.op.settings(meta.module, args, kwargs) if meta.op is not None else {}
        if _writes_in_place(meta):
            self._save_from_overwriting(args)

    def after(self, node: fx.Node, result: Any) -> None:
        meta: NodeMeta = node.meta["mase"]
        meta.results = {f"data_out_{i}": self._note(tensor) for i, tensor in enumerate(tensors_in(result))}
        meta.annotated = True
        meta.note_formats()

    def _arguments(self, meta: NodeMeta, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, TensorMeta]:
        if meta.op is None:
            found = (args, kwargs) if meta.node.op != "placeholder" else ()
            return {f"data_in_{i}": self._note(tensor) for i, tensor in enumerate(tensors_in(found))}
        noted = {
            name: self._note(value) for name, _, value in meta.op.bound(args, kwargs) if isinstance(value, Tensor)
        }
        module = meta.module
        if module is not None:
            for operand in meta.op.parameters:
                value = getattr(module, operand.name)
                if value is not None:
                    noted[operand.name] = TensorMeta.of(value, keep_value=self.keep_values, held=True)
        return noted

    def _note(self, tensor: Tensor) -> TensorMeta:
        noted = TensorMeta.of(tensor, keep_value=self.keep_values)
        if noted.value is not None:
            self.by_storage[tensor.untyped_storage().data_ptr()].append(noted)
        return noted

    def _save_from_overwriting(self, args: tuple[Any, ...]) -> None:
        """Before an op writes into its first argument: copy the values noted in the same memory."""
        for tensor in tensors_in(args[:1]):
            for noted in self.by_storage.pop(tensor.untyped_storage().data_ptr(), []):
                if noted.value is not None:
                    noted.value = noted.value.clone()


_IN_PLACE_FUNCTIONS = (operator.iadd, operator.isub, operator.imul, operator.itruediv)


def _writes_in_place(meta: NodeMeta) -> bool:
    """Whether a node may overwrite its input. An unknown op may."""
    node = meta.node
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    name = str(getattr(node.target, "__name__", node.target))
    return (
        meta.op is None
        or bool(getattr(meta.module, "inplace", False))
        or bool(node.kwargs.get("inplace", False))
        or any(argument is True for argument in node.args)
        or node.target in _IN_PLACE_FUNCTIONS
        or (name.endswith("_") and not name.endswith("__"))
    )
