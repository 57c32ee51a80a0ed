"""The annotated graph of a model."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

from torch import fx, nn

from chop.display.html import html_table
from chop.ir.graph.capture import Capture, capture_model
from chop.ir.graph.capture.carried_state import random_numbers_kept
from chop.ir.graph.drawing import Drawing, draw_nodes
from chop.ir.graph.graph_module import MaseGraphModule, graph_module, relink
from chop.ir.graph.meta import NodeMeta, metas
from chop.ir.graph.model_state import unchanged


class MaseGraph:
    """A torch.fx graph of a model, which shares the model's parameters: training or pruning either changes both.

    Its nodes carry metadata under `node.meta["mase"]`. Transforms put new layers into the graph only, never into
    the original model. `MaseGraph(copy.deepcopy(model))` shares nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        cf_args: Mapping[str, Any] | None = None,
        leaf_modules: tuple[type[nn.Module], ...] = (),
        example_inputs: Any = None,
        capture: Capture = "auto",
    ) -> None:
        """Capture `model`, with the arguments in `cf_args` fixed; modules of the classes `leaf_modules` are kept.

        torch.fx is tried first; if it fails and `example_inputs` are given (a dict by argument name, a tuple or a
        tensor), torch.export is used. `capture="fx"` or `"export"` allows only one of them. A model that is already
        a graph is used as it is.
        """
        if not isinstance(model, nn.Module):
            raise ValueError(f"MaseGraph needs a torch.nn.Module, got {_describe(model)}")
        self.capture = "fx"
        """How the graph was captured: "fx" or "export"."""
        if isinstance(model, fx.GraphModule) and not cf_args:
            graph = copy.deepcopy(model.graph)
            relink(graph)
            self.model: MaseGraphModule = graph_module(model, graph)
        else:
            with unchanged(model), random_numbers_kept():
                graph, self.capture = capture_model(model, cf_args, leaf_modules, example_inputs, capture)
                self.model = graph_module(model, graph)

    @property
    def fx_graph(self) -> fx.Graph:
        return self.model.graph

    @fx_graph.setter
    def fx_graph(self, graph: fx.Graph) -> None:
        self.model = graph_module(self.model, graph)

    @property
    def modules(self) -> dict[str, nn.Module]:
        """All modules by path; the path of the model itself is ''."""
        return dict(self.model.named_modules())

    def metas(self) -> list[NodeMeta]:
        """Return the metadata of each node, in graph order."""
        return metas(self.fx_graph.nodes)

    def annotated_metas(self) -> list[NodeMeta]:
        """Return the metadata of each node; raise an error if the graph is not annotated."""
        found = self.metas()
        for meta in found:
            if not meta.annotated:
                raise ValueError(
                    f"node '{meta.node.name}' has no op and shapes yet; run add_common_metadata_analysis_pass first"
                )
        return found

    def draw(self) -> Drawing:
        """Return a drawing of the graph, which a notebook shows."""
        return draw_nodes(self.metas())

    def _repr_html_(self) -> str:
        """Return the nodes with their ops, shapes and formats, as a table for notebooks."""
        rows = [(meta.node.name, meta.mase_op, *meta.describe_tensors()) for meta in self.metas()]
        return html_table(("node", "op", "arguments", "results"), rows, repr(self))

    def __repr__(self) -> str:
        return f"MaseGraph({type(self.model).__name__}, {len(self.fx_graph.nodes)} nodes)"


def _describe(given: object) -> str:
    """Return what was given instead of a model, with what makes a model of it."""
    if isinstance(given, type):
        return f"the class {given.__name__}; create a model of it first: {given.__name__}(...)"
    if isinstance(given, str | os.PathLike):
        return (
            f"'{os.fspath(given)}'; chop.models.get_model makes a model, and load_mase_graph_interface_pass(None, "
            "folder) loads a saved graph"
        )
    return type(given).__name__
