"""Something for each node, chosen by its op or its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from chop.ir import NodeMeta
from chop.ops import OPS
from chop.registry import closest

By = Literal["type", "name", "regex_name"]
T = TypeVar("T")


@dataclass(frozen=True)
class ByNode(Generic[T]):
    """What each op, name or pattern is given, and what all others are; None is nothing."""

    by: By
    configs: Mapping[str, T | None] = field(default_factory=dict)
    default: T | None = None

    def choose(self, op: str, name: str) -> T | None:
        """What an op at a node or path is given. Of several patterns that match its name, the first one counts."""
        if self.by == "regex_name":
            matching = [config for pattern, config in self.configs.items() if matches(pattern, name)]
            return matching[0] if matching else self.default
        key = op if self.by == "type" else name
        return self.configs[key] if key in self.configs else self.default

    def check(self, metas: Sequence[NodeMeta], where: str) -> None:
        """Every key must mean something here: an op that exists, a node that can be quantised."""
        nodes = {meta.node.name: meta for meta in metas}
        can_be = [name for name, meta in nodes.items() if meta.quantizable]
        for key in self.configs:
            if self.by == "type" and not (key in OPS and OPS[key].quantizable):
                known = [name for name, op in OPS.items() if op.quantizable]
                raise ValueError(f"{where} by type: no op '{key}' can be quantised; {closest(key, known)}")
            if self.by == "name" and key not in can_be:
                what = f"node '{key}' is {_describe(nodes[key])}" if key in nodes else f"there is no node '{key}'"
                raise ValueError(f"{where} by name: {what}, nothing to quantise; {closest(key, can_be)}")
            if self.by == "regex_name" and not any(matches(key, name) for name in can_be):
                raise ValueError(
                    f"{where} by regex_name: '{key}' matches no node that can be quantised; {closest(key, can_be)}"
                )


def _describe(meta: NodeMeta) -> str:
    computes = meta.op is not None and meta.op.quantizable
    return f"a {meta.mase_op} without floating-point operands" if computes else f"a {meta.mase_op}"


def matches(pattern: str, name: str) -> bool:
    """Whether a user's pattern is that of a whole name."""
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise ValueError(f"'{pattern}' is no regular expression: {error}") from None
