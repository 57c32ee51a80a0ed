"""The number of operations of a node."""

from __future__ import annotations

import torch
from torch import fx

from chop.cost.conventions import operations_formula
from chop.ir import NodeMeta
from chop.ir.graph.meta import GRAPH_KINDS
from chop.ops import Count


def count(meta: NodeMeta) -> Count | None:
    """Return the operations of a node by kind; None if they are unknown."""
    if meta.op is None:
        return Count() if meta.node.op in GRAPH_KINDS else None
    if not meta.results:
        return Count()  # arithmetic on shapes
    call = meta.call()
    if _computed(tuple(call.attributes.values())):
        return None
    return meta.op.count(call)


def _computed(attribute: object) -> bool:
    """Whether an attribute is computed by another node, such as a window as large as the input."""
    if isinstance(attribute, tuple | list):
        return any(_computed(item) for item in attribute)
    return isinstance(attribute, fx.Node)


def operations(meta: NodeMeta, convention: str = "mase") -> int | None:
    """Return the operations of a node in any format; None if they are unknown."""
    return operations_in(count(meta), convention)


def operations_in(counted: Count | None, convention: str) -> int | None:
    """Return the operations of a count, None if it is unknown."""
    formula = operations_formula(convention)
    return None if counted is None else formula(counted)


def flops(meta: NodeMeta, convention: str = "mase") -> int | None:
    """Return the floating-point operations of a node: all of its operations or none; None if they are unknown."""
    found = operations(meta, convention)
    return found if found is None or is_floating_point(meta) else 0


def is_floating_point(meta: NodeMeta) -> bool:
    """Whether the first operand of a node is in a floating-point format, and is not a tensor of integers."""
    first = next(iter(meta.args.values()), None)
    return first is None or (first.format.floating_point and first.dtype not in _INTEGERS)


_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
