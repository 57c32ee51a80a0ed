"""Where a model computes, and copies of graphs on another device."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.mase_graph import MaseGraph

CPU = torch.device("cpu")


def device_of(model: nn.Module, default: torch.device = CPU) -> torch.device:
    """Return the device of the first parameter or buffer of a model; `default` if it has none."""
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), default)


def on_cpu(graph: MaseGraph) -> MaseGraph:
    """Return the graph if it is on the CPU, else a copy there, with the values that it was annotated with."""
    if device_of(graph.model) == CPU:
        return graph
    copied = copy.deepcopy(graph)
    copied.model.to(CPU)
    for node in copied.fx_graph.nodes:
        meta = node.meta.get("mase")
        if meta is not None:
            meta.given = moved(meta.given, CPU)
            for tensor in (*meta.args.values(), *meta.results.values()):
                tensor.value = moved(tensor.value, CPU)
    return copied


def moved(values: Any, device: torch.device) -> Any:
    """Return nested tuples, lists and dicts with their tensors on a device."""
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), values)
