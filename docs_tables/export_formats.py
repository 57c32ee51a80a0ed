"""Which number formats can be exported to which kinds of files, and which programs run these."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.display.numbers import counted
from chop.exporting.onnx_graph.builder import OnnxBuilder
from chop.exporting.onnx_graph.call import CannotFormatError, Quantizer, Ref
from chop.exporting.onnx_graph.data_types import DataType
from chop.exporting.onnx_graph.qdq import QDQ, storage_type
from chop.exporting.qonnx_target import QONNXQuantizers
from chop.exporting.stored_tensor import store
from chop.formats import FORMATS, Format
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP
from chop.info.page import Listing

NO = "no"
VARIANTS: tuple[Format, ...] = (
    Integer(2, 1),
    Integer(4, 2),
    Integer(6, 3),
    Integer(16, 8),
    Integer(8, scale="float"),
    Integer(4, scale="float", granularity="group"),
    FP8("e5m2"),
    MXFP("e2m1"),
    MXFP("e3m2"),
)
"""Formats besides those with default parameters."""


def export_table() -> Listing:
    """Return a row per format: its type and opset in ONNX, its node in QONNX, and its codes in safetensors."""
    formats = sorted([cls() for cls in FORMATS.values()] + list(VARIANTS), key=lambda each: (each.name, each.width))
    rows = [_row(each) for each in formats]
    return Listing(("format", "ONNX type", "opset", "activations", "run by", "QONNX", "safetensors"), rows)


def _row(number_format: Format) -> tuple[str, ...]:
    operand = number_format.for_operand(-1, 0)
    builder = _try(QDQ(), operand, activation=False)
    if builder is None:
        onnx = (NO, "", "", "")
    else:
        used = _try(QDQ(), operand, activation=True)
        data_type = storage_type(operand)
        opset = max(builder.opset, builder.opset if used is None else used.opset)
        engine = "onnx reference evaluator" if data_type is DataType.FLOAT4E2M1 else "onnxruntime"
        has_activations = used is not None or not operand.rounds
        onnx = (data_type.name, str(opset), "yes" if has_activations else NO, engine)
    return (str(number_format), *onnx, _qonnx(operand), _safetensors(operand))


def _sample() -> Tensor:
    return torch.linspace(-1.5, 1.5, 4 * 64).reshape(4, 64)


def _try(quantizer: Quantizer, number_format: Format, *, activation: bool) -> OnnxBuilder | None:
    """Return a graph with a tensor in the format; None if the target does not have it."""
    builder = OnnxBuilder()
    try:
        if activation:
            quantizer.activation(builder, Ref("x", (None, 64), torch.float32), number_format, None)
        elif number_format.rounds:
            quantizer.parameter(builder, "w", _sample(), number_format, None)
    except CannotFormatError:
        return None
    return builder


def _qonnx(number_format: Format) -> str:
    builder = _try(QONNXQuantizers(), number_format, activation=False)
    if builder is None:
        return NO
    name = next((node.op_type for node in builder.nodes), "float32")
    is_used = not number_format.rounds or _try(QONNXQuantizers(), number_format, activation=True) is not None
    return name if is_used else f"{name} (weights)"


def _safetensors(number_format: Format) -> str:
    if not number_format.rounds:
        return "float32"
    try:
        store(number_format, _sample())
    except ValueError:
        return NO
    return counted(number_format.width, "bit")
