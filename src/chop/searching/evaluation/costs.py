"""The costs of configurations: computed once per unit and config, then added up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import fx

from chop.cost import in_formats
from chop.cost.memory import attribute_of, constant_nodes, moved_from
from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.meta import annotated_batch_size
from chop.searching.evaluation.cost_runners import Amounts, CostRunner

Formats = Mapping[str, Mapping[str, Format]]
"""Formats by node and operand."""


@dataclass(frozen=True)
class CostChange:
    """What new formats of some nodes add to the costs of a graph."""

    formats: Formats
    amounts: tuple[Amounts, ...] | None
    """One per cost runner; None if they depend on the formats of other nodes, which share a weight with these."""


class Costs:
    """The costs of a graph in which some nodes have other formats than those it was annotated with.

    This assumes that what a node contributes to a cost depends on its own operands only, not on the nodes that
    read its result, so that the changes of several nodes add up. A cost for which that does not hold, such as
    the energy of moving a result to each of its readers in their format, must be counted at the readers.
    """

    def __init__(self, metas: Sequence[NodeMeta], runners: Iterable[CostRunner]) -> None:
        self._metas, self._runners, self._num_rows = metas, tuple(runners), annotated_batch_size(metas)
        self._nodes_with_shared_weights = _nodes_with_shared_weights(metas)
        self._original = self._amounts(metas)
        self._originals: dict[tuple[str, ...], tuple[Amounts, ...]] = {}

    def change(self, formats: Formats) -> CostChange:
        """Return what these formats add to the costs, with all other nodes as they were annotated.

        For layers only the nodes in `formats` are looked at. For functions it takes the complete graph, which
        shows what their operands are: `F.linear(x, w)` has a weight only if `w` does not depend on an input.
        """
        if not self._nodes_with_shared_weights.isdisjoint(formats):
            return CostChange(formats, None)
        changed = [meta for meta in self._metas if meta.node.name in formats]
        are_layers = all(meta.module is not None for meta in changed)
        return CostChange(formats, self._difference(changed if are_layers else self._metas, formats))

    def total(self, changes: Iterable[CostChange]) -> dict[str, float]:
        """Return the metrics of the graph with all these changes, each of other nodes."""
        independent: list[tuple[Amounts, ...]] = [self._original]
        together: dict[str, Mapping[str, Format]] = {}
        for change in changes:
            if change.amounts is None:
                together |= change.formats
            else:
                independent.append(change.amounts)
        if together:
            independent.append(self._difference(self._metas, together))
        found: dict[str, float] = {}
        for index, runner in enumerate(self._runners):
            columns = zip(*(amounts[index] for amounts in independent), strict=True)
            found |= runner.summarize(tuple(sum(column) for column in columns), self._num_rows)
        return found

    def _difference(self, metas: Sequence[NodeMeta], formats: Formats) -> tuple[Amounts, ...]:
        """Return by how much the amounts of these nodes differ when some of them have other formats."""
        changed = [in_formats(m, formats[m.node.name]) if m.node.name in formats else m for m in metas]
        key = tuple(meta.node.name for meta in metas)  # those of a unit, or of the graph
        if key not in self._originals:
            self._originals[key] = self._amounts(metas)
        pairs = zip(self._amounts(changed), self._originals[key], strict=True)
        return tuple(tuple(new - old for new, old in zip(*pair, strict=True)) for pair in pairs)

    def _amounts(self, metas: Sequence[NodeMeta]) -> tuple[Amounts, ...]:
        found: dict[Hashable, Amounts] = {}
        for runner in self._runners:
            if runner.shared_amounts not in found:
                found[runner.shared_amounts] = runner.amounts(metas)
        return tuple(found[runner.shared_amounts] for runner in self._runners)


def costs_of(graph: MaseGraph, runners: Iterable[CostRunner]) -> dict[str, float]:
    """Return the metrics of a graph in the formats that it has."""
    return Costs(graph.annotated_metas(), runners).total(())


def _nodes_with_shared_weights(metas: Sequence[NodeMeta]) -> set[str]:
    """Return the names of nodes that use a weight which another layer or function uses too.

    Such a weight is stored once per format that it is used in, so what the format of one node costs depends on
    the formats of the others.
    """
    constant = constant_nodes(metas)
    users: dict[Hashable, dict[str, Hashable]] = {}
    for meta in metas:
        for weight in _weights(meta, constant):
            users.setdefault(weight, {})[meta.node.name] = meta.module or meta.node
    return {name for by_node in users.values() if len(set(by_node.values())) > 1 for name in by_node}


def _weights(meta: NodeMeta, constant: set[fx.Node]) -> Iterator[Hashable]:
    """Yield an identity of each weight that a node uses."""
    if meta.module is not None:
        yield from map(id, meta.module.parameters())
        return
    for node in meta.node.all_input_nodes:
        if meta.op is not None and node in constant:
            source = moved_from(node)
            yield id(attribute_of(meta, source)) if source.op == "get_attr" else source
