"""What configurations cost: worked out once for each unit and configuration, and added up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from torch import fx

from chop.cost import in_formats
from chop.cost.memory import attribute_of, constant_nodes, moved_from
from chop.formats import Format
from chop.ir import NodeMeta
from chop.searching.evaluation import CostRunner
from chop.searching.evaluation.cost_metrics import Amounts

Formats = Mapping[str, Mapping[str, Format]]
"""By node and operand."""


class Costs:
    """The costs of a graph with some of its nodes in other formats."""

    def __init__(self, metas: Sequence[NodeMeta], runners: Iterable[CostRunner], num_rows: int) -> None:
        self._metas = metas
        self._runners = tuple(runners)
        self._num_rows = num_rows
        self.sharing = _sharing(metas)
        """Nodes that use a weight which others use too: only together is it known what their formats cost."""
        self._plain = self._amounts(metas)

    def extra(self, formats: Formats) -> tuple[Amounts, ...]:
        """What these formats add to the cost of the graph as it is, for each runner."""
        named = [meta for meta in self._metas if meta.node.name in formats]
        # What a layer holds is its own, if no other holds it; of a function only the whole graph tells.
        is_apart = all(meta.module is not None and meta.node.name not in self.sharing for meta in named)
        plain = named if is_apart else self._metas
        changed = [in_formats(m, formats[m.node.name]) if m.node.name in formats else m for m in plain]
        pairs = zip(self._amounts(changed), self._amounts(plain), strict=True)
        return tuple(tuple(new - old for new, old in zip(*each, strict=True)) for each in pairs)

    def total(self, extras: Iterable[tuple[Amounts, ...]]) -> dict[str, float]:
        """The metrics of the graph with all of these changes."""
        sums = [list(amounts) for amounts in self._plain]
        for extra in extras:
            for total, amounts in zip(sums, extra, strict=True):
                for place, amount in enumerate(amounts):
                    total[place] += amount
        found: dict[str, float] = {}
        for runner, total in zip(self._runners, sums, strict=True):
            found |= runner.summarize(tuple(total), self._num_rows)
        return found

    def _amounts(self, metas: Sequence[NodeMeta]) -> tuple[Amounts, ...]:
        return tuple(runner.amounts(metas) for runner in self._runners)


def _sharing(metas: Sequence[NodeMeta]) -> set[str]:
    """The names of nodes that use a weight which another layer or function uses too."""
    constant = constant_nodes(metas)
    users: dict[Hashable, dict[str, Hashable]] = {}
    for meta in metas:
        for weight in _weights(meta, constant):
            users.setdefault(weight, {})[meta.node.name] = meta.module or meta.node
    return {name for of_one in users.values() if len(set(of_one.values())) > 1 for name in of_one}


def _weights(meta: NodeMeta, constant: set[fx.Node]) -> Iterator[Hashable]:
    """What tells the weights of a node from all others."""
    if meta.module is not None:
        yield from map(id, meta.module.parameters())
        return
    for node in meta.node.all_input_nodes:
        if meta.op is not None and node in constant:
            source = moved_from(node)
            yield id(attribute_of(meta, source)) if source.op == "get_attr" else source
