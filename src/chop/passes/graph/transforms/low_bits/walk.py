"""Running a graph node by node over several batches, so that a layer can be changed before the next one runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx

from chop.ir import MaseGraph
from chop.ir.graph.interpreter import FloatInterpreter, NodeInterpreter, bind_inputs

MASK = "attention_mask"
"""The input of a language model that is 1 for tokens and 0 for padding."""


class Walk:
    """The values of a graph's nodes on all batches; a value is dropped after its last use.

    With `in_float`, the graph computes without rounding. Memory grows with the number of rows in `batches`, not
    with the number of nodes.
    """

    def __init__(self, graph: MaseGraph, batches: Sequence[Mapping[str, Any]], in_float: bool = False) -> None:
        self._interpreter = FloatInterpreter(graph.model) if in_float else NodeInterpreter(graph.model)
        self._inputs = [iter(bind_inputs(graph, batch)) for batch in batches]
        self._values: list[dict[fx.Node, Any]] = [{} for _ in batches]
        self.masks: list[Tensor | None] = [batch.get(MASK) for batch in batches]

    def inputs(self, node: fx.Node) -> list[Any]:
        """Return the first argument of a node on each batch."""
        source = node.args[0] if node.args else next(iter(node.kwargs.values()))
        return [values[source] for values in self._values]  # type: ignore[index]

    def results(self, node: fx.Node) -> list[Any]:
        """Return the results of a node that has been run and is read later."""
        return [values[node] for values in self._values]

    def run(self, node: fx.Node) -> list[Any]:
        """Run a node on each batch and return its results; its inputs must have been run before."""
        interpreter, results = self._interpreter, []
        for values, inputs in zip(self._values, self._inputs, strict=True):
            interpreter.env, interpreter.args_iter = values, inputs
            values[node] = interpreter.run_node(node)
            results.append(values[node])
            for done in interpreter.user_to_last_uses.get(node, ()):
                del values[done]
        return results


def valid_rows(y: Tensor, mask: Tensor | None) -> Tensor:
    """Return a tensor as rows of its last dimension, without padded tokens."""
    if mask is not None and y.shape[:-1] == mask.shape:
        return y[mask.bool()]
    return y.reshape(-1, y.shape[-1]) if y.dim() else y
