"""The layer or function that a node calls."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
from torch import fx


def get_node_actual_target(node: fx.Node) -> Any:
    """Return the layer, function or tensor method that a node calls, the value of an attribute, else the name."""
    match node.op:
        case "call_module" | "get_attr":
            return attrgetter(str(node.target))(node.graph.owning_module)
        case "call_method":
            return getattr(torch.Tensor, str(node.target))
        case _:
            return node.target
