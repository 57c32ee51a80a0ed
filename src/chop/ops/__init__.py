"""The op table."""

from chop.ops import activation, arithmetic, linear, movement, normalization, pooling
from chop.ops.base import (
    OPS,
    Call,
    Count,
    Op,
    Operand,
    Role,
    Shape,
    function_names,
    method_names,
    op_of_function,
    op_of_method,
    op_of_module,
    qualified_name,
    register_op,
)

__all__ = [
    "OPS",
    "Call",
    "Count",
    "Op",
    "Operand",
    "Role",
    "Shape",
    "activation",
    "arithmetic",
    "function_names",
    "linear",
    "method_names",
    "movement",
    "normalization",
    "op_of_function",
    "op_of_method",
    "op_of_module",
    "pooling",
    "qualified_name",
    "register_op",
]
