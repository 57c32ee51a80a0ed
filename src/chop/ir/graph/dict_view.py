"""Typed fields shown to users as a dict that they can read and add to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any


class View(MutableMapping[str, Any]):
    """A dict of which some keys follow from typed fields; keys that users add are kept in `notes`.

    A copy of it is a plain dict, which follows nothing any more.
    """

    def __init__(self, derived: Callable[[], dict[str, Any]], notes: dict[str, Any]) -> None:
        self._derived = derived
        self._notes = notes

    def __getitem__(self, key: str) -> Any:
        derived = self._derived()
        return derived[key] if key in derived else self._notes[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self._derived():
            raise ValueError(f"'{key}' follows from the graph and is changed by passes only; add another key")
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
    """The same as ordinary dicts, all the way down."""
    return {key: plain(item) for key, item in value.items()} if isinstance(value, View | dict) else value
