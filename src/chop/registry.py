"""Names and what they stand for: the only plug-in mechanism of the package."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class UnknownNameError(LookupError):
    """A name that nothing is registered under; the message names the nearest one."""


def closest(name: object, known: Iterable[str]) -> str:
    """The end of an error message: the known name nearest to `name`, or all known ones."""
    options = sorted(set(known))
    near = difflib.get_close_matches(str(name), options, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"known: {', '.join(options)}" if options else "nothing is known here yet"


class Registry(Mapping[str, T]):
    """What is registered under which name, in the order of registration."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> None:
        if name in self._entries:
            raise ValueError(f"{self.kind} '{name}' is registered already, as {self._entries[name]!r}")
        self._entries[name] = entry

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that files what it decorates under `name`."""

        def decorate(entry: T) -> T:
            self.add(name, entry)
            return entry

        return decorate

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            raise UnknownNameError(f"unknown {self.kind} '{name}', {closest(name, self._entries)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries
