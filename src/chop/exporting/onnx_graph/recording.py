"""What each node of a graph returns, for two numbers of rows: what differs in size depends on the batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from chop.ir import MaseGraph
from chop.ir.graph.interpreter import NodeInterpreter, bind_inputs, undisturbed

logger = logging.getLogger(__name__)
ROWS = (2, 3)
"""The numbers of rows of the two runs."""
_RANDOM = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli")


@dataclass(frozen=True)
class Recording:
    """The results of all nodes in a run, and in a second run with another number of rows."""

    results: Mapping[fx.Node, Any]
    others: Mapping[fx.Node, Any] | None
    """None if the graph is fixed to one number of rows."""

    def is_same(self, node: fx.Node) -> bool:
        """Whether a result that is not a tensor is the same for all batches."""
        return self.others is None or bool(self.results[node] == self.others[node])


def free_shape(value: Tensor, other: Tensor | None) -> tuple[int | None, ...]:
    """Return a shape with None for sizes that differ in a second run."""
    if other is None:
        return tuple(value.shape)
    return tuple(n if n == m else None for n, m in zip(value.shape, other.shape, strict=True))


def record(graph: MaseGraph, batch: Mapping[str, Any]) -> Recording:
    """Run the graph with two rows and with three rows of a batch; with the batch as it is if that fails."""
    try:
        first, second = (_run(graph, _rows(batch, [0, -1, 0][:count])) for count in ROWS)
        return Recording(first, second)
    except (ValueError, RuntimeError, IndexError):
        logger.debug("the graph does not run on batches of any size", exc_info=True)
        return Recording(_run(graph, batch), None)


def constant_nodes(graph: MaseGraph) -> set[fx.Node]:
    """Return the nodes whose results do not depend on the inputs."""
    found: set[fx.Node] = set()
    for meta in graph.metas():
        node = meta.node
        if node.op in ("placeholder", "output") or meta.mase_op in _RANDOM:
            continue
        if all(each in found for each in node.all_input_nodes):
            found.add(node)
    return found


def _rows(batch: Mapping[str, Any], index: list[int]) -> dict[str, Any]:
    return {
        name: value[index] if isinstance(value, Tensor) and value.dim() else value for name, value in batch.items()
    }


def _run(graph: MaseGraph, batch: Mapping[str, Any]) -> dict[fx.Node, Any]:
    recorder = _Recorder(graph.model)
    with undisturbed(graph.model):
        recorder.run(*bind_inputs(graph, batch))
    return recorder.results


class _Recorder(NodeInterpreter):
    """An interpreter that keeps what each node returns."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.results: dict[fx.Node, Any] = {}

    def after(self, node: fx.Node, result: Any) -> None:
        # A later node may overwrite the tensor in place.
        self.results[node] = torch.utils._pytree.tree_map_only(Tensor, lambda tensor: tensor.clone(), result)
