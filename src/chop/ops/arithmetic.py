"""Element-wise ops of one or two operands, and concatenation."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from chop.ops.base import Call, Count, Operand, Role
from chop.ops.spellings import add_each, data, multiply_and_add_each, multiply_each, register_spelled

_OPERATORS: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (operator.add, operator.iadd),
    "sub": (operator.sub, operator.isub),
    "mul": (operator.mul, operator.imul),
    "div": (operator.truediv, operator.itruediv),
    "abs": (operator.abs,),
    "neg": (operator.neg,),
    "pow": (operator.pow, operator.ipow),
    "floor_divide": (operator.floordiv, operator.ifloordiv),
    "remainder": (operator.mod, operator.imod),
    "eq": (operator.eq,),
    "ne": (operator.ne,),
    "lt": (operator.lt,),
    "le": (operator.le,),
    "gt": (operator.gt,),
    "ge": (operator.ge,),
    "logical_and": (operator.and_, operator.iand),
    "logical_or": (operator.or_, operator.ior),
    "logical_xor": (operator.xor, operator.ixor),
    "logical_not": (operator.invert,),
}


def _register(names: str, role: Role | None, count: Callable[[Call], Count]) -> None:
    """Register an op of one or two operands."""
    name, *others = names.split()
    aten = tuple(f"__{other.removeprefix('bitwise_')}__" for other in others if other.startswith("bitwise_"))
    operands = data(role, "input", "other")
    functions = _OPERATORS.get(name, ())
    register_spelled(names, "builtin_func", operands, functions=functions, aten=aten, count=count)


for _names in ("add", "sub subtract", "rsub", "maximum fmax", "minimum fmin"):
    _register(_names, "data_in", add_each)
for _names in ("mul multiply", "div divide true_divide"):
    _register(_names, "data_in", multiply_each)
for _names in ("abs absolute", "neg negative", "clamp clip clamp_min clamp_max"):
    _register(_names, "data_in", add_each)

# Never quantised: in places, a small error of the argument becomes a large error of the result.
for _names in (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "square"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "erfinv", "logit", "pow float_power", "floor_divide", "remainder fmod"),
):
    _register(_names, None, multiply_each)

# Never quantised: the results are integers or truth values.
for _names in (
    *("floor", "ceil", "round", "trunc", "frac", "sign", "sgn", "nan_to_num", "heaviside"),
    *("eq", "ne not_equal", "lt less", "le less_equal", "gt greater", "ge greater_equal"),
    *("isnan", "isinf", "isfinite", "isclose", "signbit"),
    *("logical_and bitwise_and", "logical_or bitwise_or", "logical_xor bitwise_xor", "logical_not bitwise_not"),
):
    _register(_names, None, add_each)


for _name in ("addcmul", "addcdiv"):
    _operands = data("data_in", "input", "tensor1", "tensor2")
    register_spelled(_name, "builtin_func", _operands, count=multiply_and_add_each)

register_spelled(
    "cat concat concatenate", "builtin_func", (Operand("data_in_0", "data_in", 0, ("tensors",), variadic=True),)
)
