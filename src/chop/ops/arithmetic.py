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


_OTHER_NAMES = {
    "sub": ("subtract",),
    "maximum": ("fmax",),
    "minimum": ("fmin",),
    "mul": ("multiply",),
    "div": ("divide", "true_divide"),
    "abs": ("absolute",),
    "neg": ("negative",),
    "clamp": ("clip", "clamp_min", "clamp_max"),
    "pow": ("float_power",),
    "remainder": ("fmod",),
    "ne": ("not_equal",),
    "lt": ("less",),
    "le": ("less_equal",),
    "gt": ("greater",),
    "ge": ("greater_equal",),
    "logical_and": ("bitwise_and",),
    "logical_or": ("bitwise_or",),
    "logical_xor": ("bitwise_xor",),
    "logical_not": ("bitwise_not",),
}
_ATEN = {
    "logical_and": ("__and__",),
    "logical_or": ("__or__",),
    "logical_xor": ("__xor__",),
    "logical_not": ("__not__",),
}


def _register(name: str, role: Role | None, count: Callable[[Call], Count]) -> None:
    """Register an op of one or two operands."""
    register_spelled(
        name,
        "builtin_func",
        data(role, "input", "other"),
        other_names=_OTHER_NAMES.get(name, ()),
        functions=_OPERATORS.get(name, ()),
        aten=_ATEN.get(name, ()),
        count=count,
    )


for _name in ("add", "sub", "rsub", "maximum", "minimum"):
    _register(_name, "data_in", add_each)
for _name in ("mul", "div"):
    _register(_name, "data_in", multiply_each)
for _name in ("abs", "neg", "clamp"):
    _register(_name, "data_in", add_each)

# Never quantised: in places, a small error of the argument becomes a large error of the result.
for _name in (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "square"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "erfinv", "logit", "pow", "floor_divide", "remainder"),
):
    _register(_name, None, multiply_each)

# Never quantised: the results are integers or truth values.
for _name in (
    *("floor", "ceil", "round", "trunc", "frac", "sign", "sgn", "nan_to_num", "heaviside"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("isnan", "isinf", "isfinite", "isclose", "signbit"),
    *("logical_and", "logical_or", "logical_xor", "logical_not"),
):
    _register(_name, None, add_each)


for _name in ("addcmul", "addcdiv"):
    _operands = data("data_in", "input", "tensor1", "tensor2")
    register_spelled(_name, "builtin_func", _operands, count=multiply_and_add_each)

register_spelled(
    "cat",
    "builtin_func",
    (Operand("data_in_0", "data_in", 0, ("tensors",), variadic=True),),
    other_names=("concat", "concatenate"),
)
