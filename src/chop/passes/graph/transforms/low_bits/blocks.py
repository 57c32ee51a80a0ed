"""A graph divided into blocks of consecutive nodes, such that only one changed tensor goes from block to block."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import fx

from chop.ir import MaseGraph


@dataclass(frozen=True)
class LayerBlock:
    """Consecutive nodes, and the results of them that later nodes read."""

    nodes: Sequence[fx.Node]
    outputs: Sequence[fx.Node]

    @property
    def inputs(self) -> list[fx.Node]:
        """The nodes before the block whose results are read in it."""
        own = set(self.nodes)
        found = (source for node in self.nodes for source in node.all_input_nodes if source not in own)
        return list(dict.fromkeys(found))


def blocks_of(
    graph: MaseGraph, layers: Collection[fx.Node], changed: Collection[fx.Node], least: int
) -> list[LayerBlock]:
    """Return blocks with at least that many layers each; with 0, a single one.

    A block ends as late as possible before the next layer, where only one result that depends on `changed` nodes is
    read later: in a transformer after the addition to the residual stream. The inputs of the graph are in no block.
    """
    nodes = [node for node in graph.fx_graph.nodes if node.op not in ("placeholder", "output")]
    live = _live_after(nodes, changed)
    found: list[LayerBlock] = []
    start, count, end = 0, 0, None
    for i, node in enumerate(nodes):
        if node in layers:
            if least and count >= least and end is not None:
                found.append(LayerBlock(nodes[start : end + 1], live[end]))
                start, count = end + 1, 0
            count, end = count + 1, None
        if len(live[i]) == 1:
            end = i
    return [*found, LayerBlock(nodes[start:], live[-1])] if nodes else []


def _live_after(nodes: Sequence[fx.Node], changed: Collection[fx.Node]) -> list[list[fx.Node]]:
    """Return for each node the results that depend on `changed` nodes and are read after it."""
    places = {node: i for i, node in enumerate(nodes)}
    last = {node: max((places.get(user, len(nodes)) for user in node.users), default=-1) for node in nodes}
    depends: set[fx.Node] = set()
    live: dict[fx.Node, None] = {}
    found = []
    for i, node in enumerate(nodes):
        if node in changed or any(source in depends for source in node.all_input_nodes):
            depends.add(node)
            live[node] = None
        live = {each: None for each in live if last[each] > i}
        found.append(list(live))
    return found
