"""The op table."""

from chop.ops import activation, arithmetic, linear, movement, normalization, pooling
from chop.ops.base import Call, Count, Op, Operand, Role, Shape, numel
from chop.ops.table import (
    OPS,
    function_named,
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
    "function_named",
    "linear",
    "method_names",
    "movement",
    "normalization",
    "numel",
    "op_of_function",
    "op_of_method",
    "op_of_module",
    "pooling",
    "qualified_name",
    "register_op",
]
