"""The layers and functions of ONNX as those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.models.onnx_reader.protos import tensor_of
from chop.models.onnx_reader.reader import READERS, Constant, Flow, OnnxReader, ReadNode, constant, reads

# Layers with parameters


def _set(layer: Any, weight: Constant, bias: Constant | None) -> Any:
    with torch.no_grad():
        layer.weight.copy_(weight.value)
        if bias is not None:
            layer.bias.copy_(bias.value)
    return layer


def _linear(reader: OnnxReader, step: ReadNode, weight: Constant, bias: Constant | None) -> Flow:
    layer = nn.Linear(weight.value.shape[1], weight.value.shape[0], bias=bias is not None)
    return reader.layer(
        step.name, _set(layer, weight, bias), reader.flow(step.inputs[0]), {"weight": weight, "bias": bias}
    )


def _transposed(weight: Constant) -> Constant:
    quantization = None if weight.quantization is None else weight.quantization.transposed([1, 0])
    return Constant(weight.value.t().contiguous(), quantization)


@reads("Gemm")
def _gemm(reader: OnnxReader, step: ReadNode) -> Flow:
    given = {"transA": 0, "alpha": 1.0, "beta": 1.0, **step.attributes}
    if (given["transA"], given["alpha"], given["beta"]) != (0, 1.0, 1.0):
        raise ValueError("a product is read without factors and with rows as they are")
    weight = step.inputs[1]
    constant(weight, "the weight")
    bias = step.inputs[2] if len(step.inputs) > 2 else None
    if bias is not None:
        if constant(bias, "the bias").dim() > 1 and bias.value.shape[0] > 1:
            raise ValueError("the bias is the same for all rows")
        bias = replace(bias, value=bias.value.reshape(-1))
    return _linear(reader, step, weight if step.attributes.get("transB", 0) else _transposed(weight), bias)


@reads("MatMul")
def _matmul(reader: OnnxReader, step: ReadNode) -> Flow:
    weight = step.inputs[1]
    if isinstance(weight, Constant) and weight.value.dim() == 2:
        return _linear(reader, step, _transposed(weight), None)
    return reader.call(torch.matmul, *map(reader.flow, step.inputs))


@reads("Conv")
def _conv(reader: OnnxReader, step: ReadNode) -> Flow:
    x, weight = reader.flow(step.inputs[0]), step.inputs[1]
    bias = step.inputs[2] if len(step.inputs) > 2 else None
    value, dims = constant(weight, "the weight"), constant(weight, "the weight").dim() - 2
    if step.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise ValueError(f"the padding '{step.attributes['auto_pad']}' is not read")
    pads = list(step.attributes.get("pads", [0] * (2 * dims)))
    if pads[:dims] != pads[dims:]:
        around = [n for d in reversed(range(dims)) for n in (pads[d], pads[dims + d])]
        x, pads = reader.moved(F.pad, x, around), [0] * (2 * dims)
    group = int(step.attributes.get("group", 1))
    kind: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    layer = kind(
        value.shape[1] * group,
        value.shape[0],
        tuple(value.shape[2:]),
        stride=tuple(step.attributes.get("strides", [1] * dims)),
        padding=tuple(pads[:dims]),
        dilation=tuple(step.attributes.get("dilations", [1] * dims)),
        groups=group,
        bias=bias is not None,
    )
    return reader.layer(step.name, _set(layer, weight, bias), x, {"weight": weight, "bias": bias})


@reads("BatchNormalization")
def _batch_norm(reader: OnnxReader, step: ReadNode) -> Flow:
    x = reader.flow(step.inputs[0])
    weight, bias, mean, variance = step.inputs[1:5]
    kind: Any = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[x.sample.dim()]
    layer = kind(len(constant(mean, "the mean")), eps=float(step.attributes.get("epsilon", 1e-5)))
    layer.running_mean, layer.running_var = mean.value.clone(), constant(variance, "the variance").clone()
    constant(weight, "the weight"), constant(bias, "the bias")
    return reader.layer(step.name, _set(layer, weight, bias), x, {"weight": weight, "bias": bias})


@reads("Gather")
def _gather(reader: OnnxReader, step: ReadNode) -> Flow:
    table, index = step.inputs[:2]
    if not isinstance(table, Constant) or table.value.dim() != 2 or step.attributes.get("axis", 0) != 0:
        raise ValueError("rows are gathered from a constant table only")
    layer = _set(nn.Embedding(*table.value.shape), table, None)
    return reader.layer(step.name, layer, reader.flow(index), {"weight": table})


# Layers without parameters

_LAYERS: dict[str, Callable[[Any], nn.Module]] = {
    "Relu": lambda _: nn.ReLU(),
    "Sigmoid": lambda _: nn.Sigmoid(),
    "Tanh": lambda _: nn.Tanh(),
    "LeakyRelu": lambda given: nn.LeakyReLU(given.get("alpha", 0.01)),
    "Elu": lambda given: nn.ELU(given.get("alpha", 1.0)),
    "Selu": lambda _: nn.SELU(),
    "Softplus": lambda _: nn.Softplus(),
    "Gelu": lambda given: nn.GELU(given.get("approximate", "none")),
    "HardSwish": lambda _: nn.Hardswish(),
}


def _layer(reader: OnnxReader, step: ReadNode) -> Flow:
    return reader.layer(step.name, _LAYERS[step.op_type](step.attributes), reader.flow(step.inputs[0]), {})


for _name in _LAYERS:
    READERS.add(_name, _layer)


@reads("MaxPool", "AveragePool")
def _pool(reader: OnnxReader, step: ReadNode) -> Flow:
    x, given = reader.flow(step.inputs[0]), step.attributes
    dims = x.sample.dim() - 2
    pads = given.get("pads", [0] * (2 * dims))
    if pads[:dims] != pads[dims:] or given.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise ValueError("pooling is read with the same padding on both sides")
    options: dict[str, Any] = {
        "stride": tuple(given.get("strides", [1] * dims)),
        "padding": tuple(pads[:dims]),
        "ceil_mode": bool(given.get("ceil_mode", 0)),
    }
    if step.op_type == "MaxPool":
        options["dilation"] = tuple(given.get("dilations", [1] * dims))
        kind: Any = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[dims - 1]
    else:
        if any(size != 1 for size in given.get("dilations", ())):
            raise ValueError("average pooling is read without dilation")
        options["count_include_pad"] = bool(given.get("count_include_pad", 0))
        kind = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[dims - 1]
    return reader.layer(step.name, kind(tuple(given["kernel_shape"]), **options), x, {})


@reads("GlobalAveragePool")
def _global_pool(reader: OnnxReader, step: ReadNode) -> Flow:
    x = reader.flow(step.inputs[0])
    kind: Any = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[x.sample.dim() - 3]
    return reader.layer(step.name, kind(1), x, {})


@reads("Softmax", "LogSoftmax")
def _softmax(reader: OnnxReader, step: ReadNode) -> Flow:
    x = reader.flow(step.inputs[0])
    axis = step.attributes.get("axis", -1 if reader.opset >= 13 else 1)
    if reader.opset < 13 and axis % x.sample.dim() != x.sample.dim() - 1:
        raise ValueError("before opset 13, it is read over the last dimension only")
    kind = nn.Softmax if step.op_type == "Softmax" else nn.LogSoftmax
    return reader.layer(step.name, kind(axis), x, {})


# Functions

_FUNCTIONS: dict[str, Any] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Neg": torch.neg,
    "Abs": torch.abs,
    "Exp": torch.exp,
    "Sqrt": torch.sqrt,
    "Pow": torch.pow,
}


def _function(reader: OnnxReader, step: ReadNode) -> Flow:
    flows = [reader.flow(each) for each in step.inputs]
    if step.op_type in ("Div", "Pow") and not flows[0].sample.is_floating_point():
        raise ValueError("its result is rounded, because it is an integer")
    return reader.call(_FUNCTIONS[step.op_type], *flows)


for _name in _FUNCTIONS:
    READERS.add(_name, _function)


@reads("Identity", "Dropout")
def _identity(reader: OnnxReader, step: ReadNode) -> Any:
    if len(step.inputs) > 2 and step.inputs[2] is not None and bool(constant(step.inputs[2], "the mode")):
        raise ValueError("it is read without training")
    return step.inputs[0]


@reads("Constant")
def _constant(reader: OnnxReader, step: ReadNode) -> Constant:
    if "value" in step.attributes:
        return Constant(tensor_of(step.attributes["value"]))
    found = next(iter(step.attributes.values()))
    return Constant(torch.tensor(found))


@reads("Flatten")
def _flatten(reader: OnnxReader, step: ReadNode) -> Flow:
    if step.attributes.get("axis", 1) != 1:
        raise ValueError("a tensor is flattened from its second dimension on")
    return reader.moved(torch.flatten, reader.flow(step.inputs[0]), 1)


@reads("Reshape")
def _reshape(reader: OnnxReader, step: ReadNode) -> Any:
    sizes = [int(n) for n in constant(step.inputs[1], "the shape")]
    if isinstance(step.inputs[0], Constant):
        value = step.inputs[0]
        quantization = None if value.quantization is None else value.quantization.reshaped()
        return Constant(value.value.reshape(_sizes(sizes, value.value)), quantization)
    x = reader.flow(step.inputs[0])
    found = _sizes(sizes, x.sample)
    if sizes[0] == 0:  # the batch
        found[0] = -1
    if found.count(-1) > 1:
        raise ValueError("several sizes of its result are not given")
    return reader.moved(torch.reshape, x, tuple(found))


def _sizes(sizes: list[int], x: Tensor) -> list[int]:
    """Return a shape in which 0 is replaced by the size of the tensor, and -1 by the size that remains."""
    found = [x.shape[d] if n == 0 else n for d, n in enumerate(sizes)]
    if sizes and sizes[0] == 0 and -1 in found:
        found[found.index(-1)] = list(x.reshape(found).shape)[found.index(-1)]
    return found


@reads("Transpose")
def _transpose(reader: OnnxReader, step: ReadNode) -> Any:
    value = step.inputs[0]
    rank = (value.value if isinstance(value, Constant) else value.sample).dim()
    order = list(step.attributes.get("perm", reversed(range(rank))))
    if isinstance(value, Constant):
        quantization = None if value.quantization is None else value.quantization.transposed(order)
        return Constant(value.value.permute(order).contiguous(), quantization)
    return reader.moved(torch.permute, reader.flow(value), tuple(order))


def _axes(step: ReadNode) -> list[int]:
    """Return the dimensions of a node: an attribute of early opsets, and an input of later ones."""
    if "axes" in step.attributes:
        return list(step.attributes["axes"])
    if len(step.inputs) < 2:
        raise ValueError("its axes are not given")
    return [int(n) for n in constant(step.inputs[1], "the axes")]


@reads("Squeeze", "Unsqueeze")
def _squeeze(reader: OnnxReader, step: ReadNode) -> Flow:
    axes = _axes(step)
    if len(axes) != 1:
        raise ValueError("one dimension is added or removed at a time")
    function: Any = torch.squeeze if step.op_type == "Squeeze" else torch.unsqueeze
    return reader.moved(function, reader.flow(step.inputs[0]), axes[0])


@reads("Concat")
def _concat(reader: OnnxReader, step: ReadNode) -> Flow:
    return reader.join(torch.cat, [reader.flow(each) for each in step.inputs], dim=int(step.attributes["axis"]))


@reads("ReduceMean")
def _mean(reader: OnnxReader, step: ReadNode) -> Flow:
    axes = _axes(step)
    keep = bool(step.attributes.get("keepdims", 1))
    return reader.call(torch.mean, reader.flow(step.inputs[0]), tuple(axes), keepdim=keep)
