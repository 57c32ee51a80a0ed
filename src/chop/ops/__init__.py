"""The op table: rows in one file per kind of op, which are imported automatically."""

import importlib
import pkgutil

from chop.ops.base import Call, Count, Factors, Op, Operand, Role, Shape, numel
from chop.ops.table import (
    OPS,
    foreign_module,
    function_named,
    method_names,
    op_of_function,
    op_of_method,
    op_of_module,
    qualified_name,
    register_op,
)

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "OPS",
    "Call",
    "Count",
    "Factors",
    "Op",
    "Operand",
    "Role",
    "Shape",
    "foreign_module",
    "function_named",
    "method_names",
    "numel",
    "op_of_function",
    "op_of_method",
    "op_of_module",
    "qualified_name",
    "register_op",
]
