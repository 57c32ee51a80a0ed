"""A dict that shows typed fields, to which users can add keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any


class DictView(MutableMapping[str, Any]):
    """A dict whose `derived` keys are computed from typed fields; keys that users add are kept in `notes`.

    A copy is a plain dict, which no longer follows the fields.
    """

    def __init__(self, derived: Callable[[], dict[str, Any]], notes: dict[str, Any]) -> None:
        self._derived = derived
        self._notes = notes

    def __getitem__(self, key: str) -> Any:
        derived = self._derived()
        return derived[key] if key in derived else self._notes[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self._derived():
            raise ValueError(f"'{key}' is computed from the graph and cannot be set; add a different key")
        self._notes[key] = value

    def __delitem__(self, key: str) -> None:
        del self._notes[key]

    def __iter__(self) -> Iterator[str]:
        derived = self._derived()
        return iter([*derived, *(key for key in self._notes if key not in derived)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr(plain(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (plain(self),)


def plain(value: Any) -> Any:
    """Return the same content as ordinary nested dicts."""
    return {key: plain(item) for key, item in value.items()} if isinstance(value, DictView | dict) else value
