"""The layer or function that a node calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def get_node_actual_target(node: fx.Node) -> Any:
    """Return the layer, function or tensor method that a node calls, the value of an attribute, else the name."""
    match node.op:
        case "call_module":
            return _model(node).get_submodule(str(node.target))
        case "call_method":
            return getattr(torch.Tensor, str(node.target))
        case "get_attr":
            owner, _, name = str(node.target).rpartition(".")
            return getattr(_model(node).get_submodule(owner), name)
        case _:
            return node.target


def _model(node: fx.Node) -> fx.GraphModule:
    model = node.graph.owning_module
    assert model is not None, "a MaseGraph's fx graph always belongs to its model"
    return model
