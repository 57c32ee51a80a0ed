"""Results that come up again and again, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from chop.ir.graph.interpreter import tensors_in

NUM_SEEN = 100_000  # keys, until all of them are forgotten


class _Entry(NamedTuple):
    result: Any
    made_from: tuple[Any, ...]
    """Held as long as the result is: by their identities they are known again."""
    nbytes: int


class Remembered:
    """Results by what they were made from; when they are too many, those unused for longest are forgotten.

    Most results never come up again, and to fill fresh memory with them would cost more than to make them: so a
    result is kept from the second time on, unless it is known to be wanted.
    """

    def __init__(self, limit: int) -> None:
        """At most `limit` bytes."""
        self.limit = limit
        self.nbytes = 0
        self._entries: OrderedDict[tuple[int, ...], _Entry] = OrderedDict()
        self._seen: set[tuple[int, ...]] = set()

    def find(self, made_from: tuple[Any, ...]) -> tuple[bool, Any]:
        """Whether it is known what was made from these very objects, and what that is."""
        key = tuple(map(id, made_from))
        entry = self._entries.get(key)
        if entry is None:
            return False, None
        self._entries.move_to_end(key)
        return True, entry.result

    def add(self, made_from: tuple[Any, ...], result: Any, *, wanted: bool = False) -> bool:
        """Keep a result, if it is `wanted` or not the first one that is made from these; whether it is kept."""
        key = tuple(map(id, made_from))
        if not wanted and key not in self._seen:
            if len(self._seen) >= NUM_SEEN:
                self._seen.clear()
            self._seen.add(key)
            return False
        nbytes = sum(tensor.untyped_storage().nbytes() for tensor in tensors_in(result))
        self._entries[key] = _Entry(result, made_from, nbytes)
        self.nbytes += nbytes
        while self.nbytes > self.limit:
            _, oldest = self._entries.popitem(last=False)
            self.nbytes -= oldest.nbytes
        return key in self._entries
