"""What configurations cost: worked out once for each unit and configuration, and added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from chop.actions.search.runners import CostRunner
from chop.actions.search.runners.base import Amounts
from chop.cost import in_formats
from chop.formats import Format
from chop.ir import NodeMeta

Formats = Mapping[str, Mapping[str, Format]]
"""By node and operand."""


class Costs:
    """The costs of a graph with some of its nodes in other formats."""

    def __init__(self, metas: Sequence[NodeMeta], runners: Iterable[CostRunner], num_rows: int) -> None:
        self._metas = metas
        self._runners = tuple(runners)
        self._num_rows = num_rows
        self._plain = self._amounts(metas)

    def extra(self, formats: Formats) -> tuple[Amounts, ...]:
        """What these formats add to the cost of the graph as it is, for each runner."""
        named = [meta for meta in self._metas if meta.node.name in formats]
        # A layer holds its weights; whether those of a function are some, only the whole graph tells.
        plain = named if all(meta.module is not None for meta in named) else self._metas
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
