"""Element-wise ops of one, two or three operands."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, OpResult, Plain, Ref, Size, lowers
from chop.exporting.onnx_graph.data_types import OF_TORCH

_UNARY = {
    "abs": "Abs",
    "neg": "Neg",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "erf": "Erf",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sign": "Sign",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "sgn": "Sign",
    "isnan": "IsNaN",
    "isinf": "IsInf",
    "logical_not": "Not",
}
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "maximum": "Max", "minimum": "Min"}
_COMPARISONS = {
    "eq": "Equal",
    "ne": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_LOG_BASES = {"log2": math.log(2), "log10": math.log(10)}


@lowers(*_UNARY)
def _unary(call: OnnxCall) -> Name:
    x = call.operands["data_in_0"]
    is_bool = call.op.name == "logical_not"
    if is_bool and isinstance(x, Ref) and x.dtype is not torch.bool:
        raise call.refusal("ONNX inverts truth values only")
    dtype = None if is_bool or call.result.dtype is torch.bool else call.result.dtype
    return call.builder.node(_UNARY[call.op.name], call.tensor("data_in_0", dtype))


def both(call: OnnxCall, dtype: torch.dtype) -> tuple[Name, Name]:
    """Return the two operands in one type; numbers are constants."""
    return call.tensor("data_in_0", dtype), call.tensor("data_in_1", dtype)


@lowers(*_BINARY)
def _binary(call: OnnxCall) -> OpResult:
    if isinstance(call.result, int | float):
        return Plain(_size_arithmetic(call))
    builder, dtype = call.builder, call.result.dtype
    left, right = both(call, dtype)
    alpha = call.get("alpha", 1)
    if alpha != 1:
        right = builder.node("Mul", right, builder.constant(alpha, dtype))
    return builder.node(_BINARY[call.op.name], left, right)


@lowers("pow")
def _pow(call: OnnxCall) -> Name:
    """Return a power; a square is a product, as in PyTorch."""
    if isinstance(call.result, int | float):
        raise call.refusal("it computes a number from the batch size")
    base, exponent = call.args[0] if call.args else call.get("self", call.get("input")), call.get("exponent")
    exponent = call.args[1] if len(call.args) > 1 else exponent
    dtype = call.result.dtype
    x = call.value(base, dtype)
    if isinstance(exponent, int | float) and exponent == 2:
        return call.builder.node("Mul", x, x)
    return call.builder.node("Pow", x, call.value(exponent, dtype))


def _size_arithmetic(call: OnnxCall) -> Size:
    """Return the result of integer arithmetic with a size that depends on the batch."""
    op_type = {"add": "Add", "sub": "Sub", "mul": "Mul", "floor_divide": "Div"}.get(call.op.name)
    values = list(call.operands.values())
    if op_type is None or len(values) != 2 or isinstance(call.result, float):
        raise call.refusal("it computes a number from the batch size")
    names = [each.name if isinstance(each, Size) else call.builder.integers(int(each)) for each in values]
    return Size(call.builder.node(op_type, *names))


@lowers("floor_divide")
def _floor_divide(call: OnnxCall) -> OpResult:
    if isinstance(call.result, int | float):
        return Plain(_size_arithmetic(call))
    quotient = call.builder.node("Div", *both(call, call.result.dtype))
    if not call.result.dtype.is_floating_point:
        raise call.refusal("ONNX divides integers towards zero")
    return call.builder.node("Floor", quotient)


@lowers("rsub")
def _rsub(call: OnnxCall) -> Name:
    left, right = both(call, call.result.dtype)
    if call.get("alpha", 1) != 1:
        left = call.builder.node("Mul", left, call.builder.constant(call.get("alpha"), call.result.dtype))
    return call.builder.node("Sub", right, left)


@lowers("div")
def _div(call: OnnxCall) -> Name:
    quotient = call.builder.node("Div", *both(call, call.result.dtype))
    match call.get("rounding_mode"):
        case None:
            return quotient
        case "floor" if call.result.dtype.is_floating_point:
            return call.builder.node("Floor", quotient)
    raise call.refusal(f"ONNX has no division with the rounding '{call.get('rounding_mode')}'")


@lowers("remainder")
def _remainder(call: OnnxCall) -> Name:
    builder, dtype = call.builder, call.result.dtype
    left, right = both(call, dtype)
    if not dtype.is_floating_point:
        return builder.node("Mod", left, right)
    whole = builder.node("Floor", builder.node("Div", left, right))
    return builder.node("Sub", left, builder.node("Mul", whole, right))


@lowers("square")
def _square(call: OnnxCall) -> Name:
    x = call.tensor("data_in_0")
    return call.builder.node("Mul", x, x)


@lowers("rsqrt", "exp2", "expm1", "log1p", "log2", "log10", "erfc")
def _composed(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0", call.result.dtype)
    one = builder.constant(1.0)
    match call.op.name:
        case "rsqrt":
            return builder.node("Reciprocal", builder.node("Sqrt", x))
        case "exp2":
            return builder.node("Pow", builder.constant(2.0), x)
        case "expm1":
            return builder.node("Sub", builder.node("Exp", x), one)
        case "log1p":
            return builder.node("Log", builder.node("Add", x, one))
        case "erfc":
            return builder.node("Sub", one, builder.node("Erf", x))
        case base:
            return builder.node("Div", builder.node("Log", x), builder.constant(_LOG_BASES[base]))


@lowers("clamp")
def _clamp(call: OnnxCall) -> Name:
    builder, x, dtype = call.builder, call.tensor("data_in_0", call.result.dtype), call.result.dtype
    name = getattr(call.function, "__name__", str(call.meta.node.target))
    low, high = call.get("min"), call.get("max")
    if "clamp_min" in name or "clamp_max" in name:
        bound = call.args[1] if len(call.args) > 1 else low if low is not None else high
        low, high = (bound, None) if "clamp_min" in name else (None, bound)
    if low is not None:
        x = builder.node("Max", x, call.value(low, dtype))
    return x if high is None else builder.node("Min", x, call.value(high, dtype))


def _promoted(left: Any, right: Any) -> torch.dtype:
    """Return the type in which two values are compared."""
    dtypes = [each.dtype for each in (left, right) if isinstance(each, Ref | Tensor)]
    if len(dtypes) == 2:
        return torch.promote_types(*dtypes)
    number = right if isinstance(left, Ref | Tensor) else left
    return torch.float32 if isinstance(number, float) and not dtypes[0].is_floating_point else dtypes[0]


@lowers(*_COMPARISONS)
def _compare(call: OnnxCall) -> Name:
    names = both(call, _promoted(call.operands["data_in_0"], call.operands["data_in_1"]))
    result = call.builder.node(_COMPARISONS[call.op.name], *names)
    return call.builder.node("Not", result) if call.op.name == "ne" else result


@lowers(*_LOGICAL)
def _logical(call: OnnxCall) -> Name:
    if call.result.dtype is not torch.bool:
        raise call.refusal("ONNX combines truth values only")
    return call.builder.node(_LOGICAL[call.op.name], *both(call, torch.bool))


@lowers("isfinite")
def _isfinite(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    return builder.node("Not", builder.node("Or", builder.node("IsNaN", x), builder.node("IsInf", x)))


@lowers("addcmul", "addcdiv")
def _addcmul(call: OnnxCall) -> Name:
    builder, dtype = call.builder, call.result.dtype
    x, first, second = (call.tensor(f"data_in_{i}", dtype) for i in range(3))
    product = builder.node("Mul" if call.op.name == "addcmul" else "Div", first, second)
    if call.get("value", 1) != 1:
        product = builder.node("Mul", product, builder.constant(call.get("value"), dtype))
    return builder.node("Add", x, product)


@lowers("where")
def _where(call: OnnxCall) -> Name:
    condition = call.value(call.get("condition", call.args[0] if call.args else None), torch.bool)
    dtype = call.result.dtype
    return call.builder.node("Where", condition, call.tensor("data_in_1", dtype), call.tensor("data_in_2", dtype))


@lowers("masked_fill")
def _masked_fill(call: OnnxCall) -> Name:
    dtype = call.result.dtype
    mask, value = call.value(call.get("mask"), torch.bool), call.value(call.get("value"), dtype)
    return call.builder.node("Where", mask, value, call.tensor("data_in_0", dtype))


@lowers("to", "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "type", "type_as", "cpu")
def _to(call: OnnxCall) -> Any:
    x = call.operands["data_in_0"]
    if isinstance(x, Ref) and x.dtype is call.result.dtype:
        return x
    return call.builder.cast(call.tensor("data_in_0"), OF_TORCH[call.result.dtype])
