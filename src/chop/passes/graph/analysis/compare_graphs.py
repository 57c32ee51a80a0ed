"""Follow the error of a quantised graph along the network."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from chop.display.numbers import table_decibels
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import NodeInterpreter, bind_inputs, undisturbed
from chop.ir.graph.meta import GRAPH_KINDS
from chop.passes.base import PassResult, register_pass
from chop.statistics.batches import limited_batches
from chop.statistics.deviation import Deviation, measured_in

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompareGraphsArgs:
    """Arguments of `compare_graphs`."""

    input_generator: Mapping[str, Any] | Iterable[Mapping[str, Any]] = field(metadata={"aliases": ("inputs",)})
    """One batch by argument name, such as `{"x": tensor}`, of which all rows are run; or an iterable of batches."""
    threshold_db: float = 20.0
    """The SQNR in dB below which a node is named as `first_below`."""
    num_samples: int = 1024
    """The number of rows to run, if there are several batches."""
    original: MaseGraph | None = None
    """The graph to compare with; in a pipeline, the graph before the transforms."""


@register_pass("compare_graphs", kind="analysis", prints=True, two_graphs=True)
def compare_graphs_analysis_pass(graph: MaseGraph, args: CompareGraphsArgs) -> PassResult:
    """Measure the error of every node's output against the node of the same name in the original graph.

    Also called as `compare_graphs_analysis_pass(original, graph, batches, threshold_db=20, num_samples=1024)`.
    `info["by_node"]` has `sqnr_db`, `max_error` and `cosine` of each node in graph order, `info["first_below"]` is
    the first node below `threshold_db`, and `info["unmatched"]` lists the nodes that the other graph does not have
    under the same name and with the same shape. Both graphs stay unchanged.
    """
    if args.original is None:
        raise ValueError("compare_graphs_analysis_pass: 'original', the graph to compare with, is required")
    comparison = _Comparison(args.original, graph)
    given = args.input_generator
    for batch in [given] if isinstance(given, Mapping) else limited_batches(given, args.num_samples):
        comparison.add(batch)
    if not comparison.found:
        raise ValueError("there is nothing to compare: no batches, or no node that both graphs have")
    by_node = {
        name: {"sqnr_db": each.sqnr_db, "max_error": each.max_error, "cosine": each.cosine}
        for name, each in comparison.found.items()
    }
    first_below = next((name for name, each in by_node.items() if each["sqnr_db"] < args.threshold_db), None)
    last = list(by_node)[-1]
    logger.info(
        "compared with the original: SQNR of '%s' %s; %s below %g dB",
        last,
        table_decibels(by_node[last]["sqnr_db"]),
        "no node" if first_below is None else f"'{first_below}' is the first node",
        args.threshold_db,
    )
    return graph, {
        "by_node": by_node,
        "first_below": first_below,
        "threshold_db": args.threshold_db,
        "unmatched": comparison.unmatched,
    }


class _Comparison:
    """Deviations of the nodes that two graphs have in common, over the batches so far."""

    def __init__(self, original: MaseGraph, graph: MaseGraph) -> None:
        self.original, self.graph = original, graph
        before, after = (
            [node.name for node in g.fx_graph.nodes if node.op not in GRAPH_KINDS] for g in (original, graph)
        )
        self.common = {*before} & {*after}
        self.unmatched = [name for name in (*before, *after) if name not in self.common]
        self.found: dict[str, Deviation] = {}

    def add(self, batch: Mapping[str, Any]) -> None:
        """Run both graphs side by side, so that few values are in memory at a time: those not yet compared."""
        before: dict[str, list[Tensor]] = {}
        with undisturbed(self.original.model), undisturbed(self.graph.model):
            ours = _Outputs(self.original, self.common, batch)
            theirs = _Outputs(self.graph, self.common, batch)
            for name, values in iter(theirs.next, None):
                while name not in before and (found := ours.next()) is not None:
                    before[found[0]] = [tensor.clone() for tensor in found[1]]  # the next node may write into them
                self._compare(name, before.pop(name), values)

    def _compare(self, name: str, before: list[Tensor], after: list[Tensor]) -> None:
        if [tensor.shape for tensor in before] != [tensor.shape for tensor in after]:
            if name not in self.unmatched:
                self.unmatched.append(name)
        elif before:  # nodes that return no tensor, such as sizes, have no error
            self.found.setdefault(name, Deviation()).add(before, after)


class _Outputs(NodeInterpreter):
    """The outputs of the named nodes of a graph, one after the other; other graphs may run in between."""

    def __init__(self, graph: MaseGraph, names: Collection[str], batch: Mapping[str, Any]) -> None:
        super().__init__(graph.model)
        self._nodes = self.steps(*bind_inputs(graph, batch))
        self._names = names
        self._random_state = torch.get_rng_state()  # of its own, so that random ops of both graphs agree
        self._found: tuple[str, list[Tensor]] | None = None

    def next(self) -> tuple[str, list[Tensor]] | None:
        """Run until the next of the nodes, and return its name and output; None after the last one."""
        self._found, state = None, torch.get_rng_state()
        torch.set_rng_state(self._random_state)
        while self._found is None and next(self._nodes, None) is not None:
            pass
        self._random_state = torch.get_rng_state()
        torch.set_rng_state(state)
        return self._found

    def after(self, node: fx.Node, result: Any) -> None:
        if node.name in self._names and node.op not in GRAPH_KINDS:
            self._found = node.name, measured_in(result)
