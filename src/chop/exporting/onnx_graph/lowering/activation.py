"""Activation functions and dropout."""

from __future__ import annotations

from typing import Any

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers

_SAME = {name: name.capitalize() for name in ("relu", "sigmoid", "tanh", "softsign", "mish", "selu")}
_SAME["hardswish"] = "HardSwish"
_WITH_ATTRIBUTES: dict[str, tuple[str, dict[str, tuple[str, float]]]] = {
    "leaky_relu": ("LeakyRelu", {"alpha": ("negative_slope", 0.01)}),
    "elu": ("Elu", {"alpha": ("alpha", 1.0)}),
    "celu": ("Celu", {"alpha": ("alpha", 1.0)}),
    "hardshrink": ("Shrink", {"lambd": ("lambd", 0.5)}),
    "softshrink": ("Shrink", {"lambd": ("lambd", 0.5), "bias": ("lambd", 0.5)}),
}
"""For each op, the ONNX op, and the argument and default of each of its attributes."""


@lowers(*_SAME, *_WITH_ATTRIBUTES)
def _lower(call: OnnxCall) -> Name:
    name = call.op.name
    if name in _SAME:
        return call.builder.node(_SAME[name], call.tensor("data_in_0"))
    op_type, attributes = _WITH_ATTRIBUTES[name]
    given = {key: float(call.get(*argument)) for key, argument in attributes.items()}
    return call.builder.node(op_type, call.tensor("data_in_0"), **given)


@lowers("silu")
def _silu(call: OnnxCall) -> Name:
    x = call.tensor("data_in_0")
    return call.builder.node("Mul", x, call.builder.node("Sigmoid", x))


@lowers("gelu")
def _gelu(call: OnnxCall) -> Name:
    return call.builder.node("Gelu", call.tensor("data_in_0"), approximate=call.get("approximate", "none"))


@lowers("softplus")
def _softplus(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    beta, threshold = float(call.get("beta", 1.0)), float(call.get("threshold", 20.0))
    scaled = x if beta == 1 else builder.node("Mul", x, builder.constant(beta))
    soft = builder.node("Softplus", scaled)
    soft = soft if beta == 1 else builder.node("Div", soft, builder.constant(beta))
    return builder.node("Where", builder.node("Greater", scaled, builder.constant(threshold)), x, soft)


@lowers("logsigmoid")
def _logsigmoid(call: OnnxCall) -> Name:
    builder = call.builder
    return builder.node("Neg", builder.node("Softplus", builder.node("Neg", call.tensor("data_in_0"))))


@lowers("tanhshrink")
def _tanhshrink(call: OnnxCall) -> Name:
    x = call.tensor("data_in_0")
    return call.builder.node("Sub", x, call.builder.node("Tanh", x))


@lowers("hardtanh")
def _hardtanh(call: OnnxCall) -> Name:
    is_relu6 = "relu6" in str(call.meta.node.target) or "relu6" in getattr(call.function, "__name__", "")
    low, high = (0.0, 6.0) if is_relu6 else (-1.0, 1.0)
    bounds = [float(call.get("min_val", low)), float(call.get("max_val", high))]
    return call.builder.node("Clip", call.tensor("data_in_0"), *map(call.builder.constant, bounds))


@lowers("hardsigmoid")
def _hardsigmoid(call: OnnxCall) -> Name:
    return call.builder.node("HardSigmoid", call.tensor("data_in_0"), alpha=1 / 6, beta=0.5)


@lowers("threshold")
def _threshold(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    above = builder.node("Greater", x, builder.constant(float(call.get("threshold"))))
    return builder.node("Where", above, x, builder.constant(float(call.get("value"))))


@lowers("rrelu")
def _rrelu(call: OnnxCall) -> Name:
    slope = (float(call.get("lower", 1 / 8)) + float(call.get("upper", 1 / 3))) / 2
    return call.builder.node("LeakyRelu", call.tensor("data_in_0"), alpha=slope)


@lowers("prelu")
def _prelu(call: OnnxCall) -> Name:
    builder, slope = call.builder, call.tensor("weight")
    (count,) = call.shape("weight") or (1,)
    if count != 1 and call.rank() > 2:  # the channels are the second dimension
        slope = builder.reshape(slope, [-1] + [1] * (call.rank() - 2))
    return builder.node("PRelu", call.tensor("data_in_0"), slope)


@lowers("glu")
def _glu(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    left, right = builder.node_with_outputs("Split", 2, x, axis=int(call.get("dim", -1)), num_outputs=2)
    return builder.node("Mul", left, builder.node("Sigmoid", right))


@lowers("dropout")
def _dropout(call: OnnxCall) -> Any:
    if call.module is None and call.get("training", call.get("train", False)) is True:
        raise call.refusal("it drops elements at random, also in evaluation")
    return call.args[0] if call.args else call.get("input")
