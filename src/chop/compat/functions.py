"""Functions with the names that MASE and the course notes use. Nothing else in the package calls them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, fx, nn

from chop.cost.conventions import operations_formula
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.meta import get_node_actual_target as get_node_actual_target
from chop.nn.quantized import QuantizedLayer
from chop.ops import OPS, Call, Shape, op_of_module
from chop.registry import closest


def get_mase_op(node: fx.Node) -> str:
    """Return the op of an annotated node, such as `linear`."""
    return _annotated(node).mase_op


def get_mase_type(node: fx.Node) -> str:
    """Return the MASE type of an annotated node, such as `module_related_func`."""
    return _annotated(node).mase_type


def get_parent_name(target: str) -> tuple[str, str]:
    """Split the path of a submodule into its parent and its name: `a.b.c` into `("a.b", "c")`."""
    parent, _, name = target.rpartition(".")
    return parent, name


def deepcopy_mase_graph(graph: MaseGraph) -> MaseGraph:
    """Return a copy with separate parameters and metadata; the values of activations are shared."""
    return copy.deepcopy(graph)


def calculate_modules(module: nn.Module, in_data: Sequence[Tensor], out_data: Sequence[Tensor]) -> dict[str, int]:
    """Return parameters and operations (convention `mase`) of one call of a layer, and its sizes in elements."""
    kind = type(module).__name__
    op = module.op if isinstance(module, QuantizedLayer) else op_of_module(type(module))
    if op is None:
        known = [layer.__name__ for op in OPS.values() for layer in op.modules]
        raise ValueError(f"calculate_modules: the operations of {kind} are unknown; {closest(kind, known)}")
    inputs, outputs = _shapes(in_data, "in_data"), _shapes(out_data, "out_data")
    operands = {f"data_in_{i}": shape for i, shape in enumerate(inputs)}
    operands |= {name: tuple(tensor.shape) for name, tensor in op.parameters_of(module).items()}
    counted = op.count(Call(operands, outputs, op.settings(module, (), {})))
    if counted is None:
        raise ValueError(f"calculate_modules: the operations of this {kind} are unknown")
    return {
        "total_parameters": sum(parameter.numel() for parameter in module.parameters()),
        "computations": operations_formula("mase")(counted),
        "input_buffer_size": sum(torch.Size(shape).numel() for shape in inputs),
        "output_buffer_size": sum(torch.Size(shape).numel() for shape in outputs),
    }


def _annotated(node: fx.Node) -> NodeMeta:
    meta = node.meta.get("mase")
    if meta is None or not meta.annotated:
        raise ValueError(f"node '{node.name}' has no op yet; run add_common_metadata_analysis_pass first")
    return cast(NodeMeta, meta)


def _shapes(tensors: Sequence[Tensor], what: str) -> tuple[Shape, ...]:
    if not isinstance(tensors, list | tuple) or not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise ValueError(
            f"calculate_modules: {what} must be a list of tensors, got {type(tensors).__name__}; values are in the "
            "metadata unless add_common_metadata_analysis_pass ran with add_value=False"
        )
    return tuple(tuple(tensor.shape) for tensor in tensors)
