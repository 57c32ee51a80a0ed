"""From a model to an fx graph, with an error that helps where that fails."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from chop.nn.quantized import QuantizedLayer

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))


class TraceError(ValueError):
    """A model that torch.fx cannot follow."""


class Tracer(fx.Tracer):
    """fx's tracer, which also takes quantised layers and chosen classes whole, and knows where it is."""

    def __init__(self, leaf_modules: tuple[type[nn.Module], ...] = ()) -> None:
        super().__init__()
        self.leaf_modules = leaf_modules
        self.path: list[str] = []
        """The modules whose forward is being traced, outermost first."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        whole = isinstance(m, (QuantizedLayer, *self.leaf_modules))
        return whole or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        self.path.append(self.path_of_module(m))
        result = super().call_module(m, forward, args, kwargs)
        self.path.pop()
        return result


def trace(
    model: nn.Module,
    cf_args: Mapping[str, Any] | None = None,
    leaf_modules: tuple[type[nn.Module], ...] = (),
) -> fx.Graph:
    """The graph of the model's forward; arguments named in `cf_args` are fixed to the values given there."""
    tracer = Tracer(leaf_modules)
    try:
        graph = tracer.trace(model, concrete_args=dict(cf_args) if cf_args else None)
    except Exception as error:
        raise TraceError(_explain(error, model, tracer.path)) from error
    for name in cf_args or ():
        _remove_fixed_input(graph, name)
    return graph


def _explain(error: Exception, model: nn.Module, path: list[str]) -> str:
    where = f"module '{path[-1]}' ({type(model.get_submodule(path[-1])).__name__})" if path else "the model"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_LIBRARIES)]
    line = ""
    if frames:
        frame = frames[-1]
        source = linecache.getline(frame.filename, frame.lineno or 0).strip() or frame.line or ""
        line = f", {frame.filename}:{frame.lineno}: `{source}`"
    return (
        f"torch.fx cannot trace {type(model).__name__}: it stops in {where}{line}: {error}. "
        "What can be done: fix the argument that decides with MaseGraph(model, cf_args={'name': value}), "
        "write the choice with torch.where, or keep the module whole with MaseGraph(model, leaf_modules=(Class,))"
    )


def _remove_fixed_input(graph: fx.Graph, name: str) -> None:
    """Take out the input that fx leaves behind for a fixed argument, and the assertion about its value."""
    for node in list(graph.nodes):
        if node.op == "placeholder" and re.fullmatch(rf"{re.escape(name)}_\d+", str(node.target)):
            for user in reversed(_descendants(node)):
                graph.erase_node(user)
            graph.erase_node(node)


def _descendants(node: fx.Node) -> list[fx.Node]:
    """All nodes that depend on one, in an order in which each comes after what it uses."""
    reached: set[fx.Node] = {node}
    found = []
    for later in node.graph.nodes:
        if reached.intersection(later.all_input_nodes):
            reached.add(later)
            found.append(later)
    return found
