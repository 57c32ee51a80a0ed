"""Operations of a single layer. Kept for a MASE import path; passes use `chop.cost`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from chop.cost.conventions import operations_formula
from chop.nn.quantized import QuantizedLayer
from chop.ops import OPS, Call, Op, Shape, op_of_module
from chop.registry import closest


def calculate_modules(module: nn.Module, in_data: Sequence[Tensor], out_data: Sequence[Tensor]) -> dict[str, int]:
    """Return parameters and operations (convention `mase`) of one call of a layer, and its sizes in elements."""
    op = _find_op(module)
    inputs, outputs = _shapes(in_data, "in_data"), _shapes(out_data, "out_data")
    operands = {f"data_in_{i}": shape for i, shape in enumerate(inputs)}
    operands |= {name: tuple(tensor.shape) for name, tensor in op.parameters_of(module).items()}
    counted = op.count(Call(operands, outputs, op.settings(module, (), {})))
    if counted is None:
        raise ValueError(f"calculate_modules: the operations of this {type(module).__name__} are unknown")
    return {
        "total_parameters": sum(parameter.numel() for parameter in module.parameters()),
        "computations": operations_formula("mase")(counted),
        "input_buffer_size": sum(torch.Size(shape).numel() for shape in inputs),
        "output_buffer_size": sum(torch.Size(shape).numel() for shape in outputs),
    }


def _find_op(module: nn.Module) -> Op:
    found = module.op if isinstance(module, QuantizedLayer) else op_of_module(type(module))
    if found is None:
        name = type(module).__name__
        known = [layer.__name__ for op in OPS.values() for layer in op.modules]
        raise ValueError(f"calculate_modules: the operations of {name} are unknown; {closest(name, known)}")
    return found


def _shapes(tensors: Sequence[Tensor], what: str) -> tuple[Shape, ...]:
    if not isinstance(tensors, list | tuple) or not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise ValueError(
            f"calculate_modules: {what} must be a list of tensors, got {type(tensors).__name__}; values are in the "
            "metadata unless add_common_metadata_analysis_pass ran with add_value=False"
        )
    return tuple(tuple(tensor.shape) for tensor in tensors)
