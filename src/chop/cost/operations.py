"""Operations of a node."""

from __future__ import annotations

import torch
from torch import fx

from chop.cost.composite_layers import layer_count
from chop.cost.conventions import operations_formula
from chop.ir import NodeMeta
from chop.ir.graph.meta import GRAPH_KINDS
from chop.ops import Count


def count(meta: NodeMeta) -> Count | None:
    """The operations of a node by kind; None if they are not known."""
    if meta.op is None:
        if meta.node.op in GRAPH_KINDS:
            return Count()
        layer = layer_count(meta)
        return None if layer is None else layer.count
    if not meta.results:
        return Count()  # arithmetic on shapes
    call = meta.call()
    if _computed(tuple(call.attributes.values())):
        return None
    return meta.op.count(call)


def _computed(setting: object) -> bool:
    """Whether another node computes a setting, such as a window as large as the input."""
    if isinstance(setting, tuple | list):
        return any(_computed(item) for item in setting)
    return isinstance(setting, fx.Node)


def operations(meta: NodeMeta, convention: str = "mase") -> int | None:
    """Operations of a node in whichever format; None if they are not known."""
    formula, counted = operations_formula(convention), count(meta)
    return None if counted is None else formula(counted)


def flops(meta: NodeMeta, convention: str = "mase") -> int | None:
    """Floating-point operations of a node: all or none of its operations; None if they are not known."""
    found = operations(meta, convention)
    return found if found is None or is_floating_point(meta) else 0


def is_floating_point(meta: NodeMeta) -> bool:
    """Whether the first operand of a node is in a floating-point format, and no tensor of integers."""
    first = next(iter(meta.args.values()), None)
    return first is None or (first.format.floating_point and first.dtype not in _INTEGERS)


_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
