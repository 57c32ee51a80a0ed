"""Where along the network a graph departs from another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, fx

from chop.ir import MaseGraph
from chop.ir.graph.interpreter import Runner, bind_inputs, undisturbed
from chop.ir.graph.meta import GRAPH_KINDS
from chop.passes.base import PassResult
from chop.statistics.batches import limited
from chop.statistics.deviation import Deviation, measured_in


def compare_graphs_analysis_pass(
    ori: MaseGraph,
    new: MaseGraph,
    inputs: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    threshold_db: float = 20.0,
    num_samples: int = 1024,
) -> PassResult:
    """The error of every node's output in `new` against that of the node of the same name in `ori`.

    `inputs` is a batch by argument name, which is run whole, or an iterable of batches, of which `num_samples` rows
    are run. `info["by_node"]` has `sqnr_db`, `max_error` and `cosine` of each node in graph order,
    `info["first_below"]` is the first node under `threshold_db`, and `info["unmatched"]` names the nodes for which
    the other graph has none of that name and shape. Both graphs are left as they were.
    """
    for graph in (ori, new):
        if not isinstance(graph, MaseGraph):
            kind = type(graph).__name__
            raise ValueError(
                f"compare_graphs_analysis_pass: works on a MaseGraph, got a {kind}; make one with MaseGraph(model)"
            )
    comparison = _Comparison(ori, new)
    for batch in _batches(inputs, num_samples):
        comparison.add(batch)
    by_node = comparison.result()
    return new, {
        "by_node": by_node,
        "first_below": next((name for name, each in by_node.items() if each["sqnr_db"] < threshold_db), None),
        "threshold_db": threshold_db,
        "unmatched": comparison.unmatched,
    }


def _batches(
    inputs: Mapping[str, Any] | Iterable[Mapping[str, Any]], num_samples: int
) -> Iterator[Mapping[str, Any]]:
    if isinstance(inputs, Mapping):
        yield inputs
        return
    for batch, _ in limited(((batch, None) for batch in inputs), num_samples):
        yield batch


class _Comparison:
    """Deviations of the nodes that two graphs have in common, over the batches so far."""

    def __init__(self, ori: MaseGraph, new: MaseGraph) -> None:
        self.ori, self.new = ori, new
        before, after = ([node.name for node in graph.fx_graph.nodes if _computes(node)] for graph in (ori, new))
        self.common = {*before} & {*after}
        self.unmatched = [name for name in (*before, *after) if name not in self.common]
        self.found: dict[str, Deviation] = {}

    def add(self, batch: Mapping[str, Any]) -> None:
        before: dict[str, list[Tensor]] = {}

        def record(name: str, values: list[Tensor]) -> None:
            before[name] = [tensor.clone() for tensor in values]  # the next node may write into them

        def compare(name: str, values: list[Tensor]) -> None:
            self._compare(name, before.pop(name), values)

        # Both start from the same random state, so that what is random in them is the same.
        for graph, show in ((self.ori, record), (self.new, compare)):
            with undisturbed(graph.model):
                _Shower(graph.model, self.common, show).run(*bind_inputs(graph, batch))

    def _compare(self, name: str, before: list[Tensor], after: list[Tensor]) -> None:
        if [tensor.shape for tensor in before] != [tensor.shape for tensor in after]:
            if name not in self.unmatched:
                self.unmatched.append(name)
        elif before:  # others give sizes and the like
            self.found.setdefault(name, Deviation()).add(before, after)

    def result(self) -> dict[str, dict[str, float]]:
        if not self.found:
            raise ValueError("there is nothing to compare: no batches, or no node that both graphs have")
        return {
            name: {"sqnr_db": each.sqnr_db, "max_error": each.max_error, "cosine": each.cosine}
            for name, each in self.found.items()
        }


class _Shower(Runner):
    """Runs a graph and shows what comes out of the nodes of some names."""

    def __init__(
        self, model: fx.GraphModule, names: Collection[str], show: Callable[[str, list[Tensor]], None]
    ) -> None:
        super().__init__(model)
        self.names, self.show = names, show

    def after(self, node: fx.Node, result: Any) -> None:
        if node.name in self.names and _computes(node):
            self.show(node.name, measured_in(result))


def _computes(node: fx.Node) -> bool:
    return node.op not in GRAPH_KINDS
