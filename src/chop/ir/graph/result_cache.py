"""A cache of results that are needed repeatedly, with bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from chop.ir.graph.interpreter import tensors_in

MAX_KEYS_SEEN = 100_000  # keys of results that were not cached; beyond it all of them are dropped

_Key = tuple[int, ...]
"""The identities of what a result was computed from."""


class _Entry(NamedTuple):
    result: Any
    computed_from: tuple[Any, ...]
    """Kept alive with the result, so that no other object gets the same identity."""
    nbytes: int


class ResultCache:
    """Results by the objects that they were computed from; the least recently used are dropped first.

    Most results are never needed again, and filling newly allocated memory with them costs more than computing
    them. Therefore a result is kept from the second time on that it is added, unless it is added `at_once`.
    """

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` bytes."""
        self.limit = limit
        self.nbytes = 0
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._seen: set[_Key] = set()

    def find(self, computed_from: tuple[Any, ...]) -> tuple[bool, Any]:
        """Return whether the result computed from these very objects is cached, and the result."""
        key = tuple(map(id, computed_from))
        entry = self._entries.get(key)
        if entry is None:
            return False, None
        self._entries.move_to_end(key)
        return True, entry.result

    def add(self, computed_from: tuple[Any, ...], result: Any, *, at_once: bool = False) -> bool:
        """Keep a result from the second call on, or `at_once`; return whether it is kept."""
        key = tuple(map(id, computed_from))
        if not at_once and key not in self._seen:
            if len(self._seen) >= MAX_KEYS_SEEN:
                self._seen.clear()
            self._seen.add(key)
            return False
        nbytes = sum(tensor.untyped_storage().nbytes() for tensor in tensors_in(result))
        self._entries[key] = _Entry(result, computed_from, nbytes)
        self.nbytes += nbytes
        while self.nbytes > self.limit:
            _, oldest = self._entries.popitem(last=False)
            self.nbytes -= oldest.nbytes
        return key in self._entries
