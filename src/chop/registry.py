"""Named entries: the only plug-in mechanism of the package."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, cast

TYPO = 0.8
"""The similarity, from 0 to 1, of a name with a few wrong letters."""
MIN_PART = 3
"""The number of letters from which a part of a name is recognised."""

T = TypeVar("T")
D = TypeVar("D")


class UnknownNameError(LookupError):
    """A name under which nothing is registered; the message suggests the nearest one."""


def closest(name: object, known: Iterable[str]) -> str:
    """Return the end of an error message: the known name nearest to `name`, or all known names."""
    options = sorted(set(known))
    near = _nearest(str(name), options)
    if near is not None:
        return f"did you mean '{near}'?"
    return f"known: {', '.join(options)}" if options else "none are registered"


def _nearest(name: str, options: list[str]) -> str | None:
    """Return the option that a misspelt, abbreviated or shortened name probably means."""
    plain = {option.lstrip("-").replace("-", "_"): option for option in options}
    key = name.lstrip("-").replace("-", "_")
    typos = difflib.get_close_matches(key, plain, n=1, cutoff=TYPO)
    words = {option: option.split("_") for option in plain}
    initials = [option for option in plain if len(key) > 1 and "".join(each[:1] for each in words[option]) == key]
    starts = [option for option in plain if len(key) >= MIN_PART and option.startswith(key)]
    parts = [option for option in plain if len(key) >= MIN_PART and key in words[option]]
    similar = difflib.get_close_matches(key, plain, n=1)
    for found in (typos, initials, starts, parts, similar):
        if found:
            return plain[min(found, key=len)]
    return None


class Decorator(Protocol):
    """A decorator that returns what it decorates, so that its type is kept."""

    def __call__(self, decorated: D, /) -> D: ...


class Registry(Mapping[str, T]):
    """A read-only mapping from names to entries, in the order of registration; `kind` names it in errors."""

    def __init__(self, kind: str, entries: Mapping[str, T] | None = None) -> None:
        self.kind = kind
        self._entries: dict[str, T] = dict(entries or {})

    def add(self, name: str, entry: T) -> None:
        """Add an entry; a name can be used once."""
        if name in self._entries:
            raise ValueError(f"{self.kind} '{name}' is already registered, as {self._entries[name]!r}")
        self._entries[name] = entry

    def register(self, name: str, make_entry: Callable[[Any], T] | None = None) -> Decorator:
        """Return a decorator that adds a class or function under `name` and returns it unchanged.

        The entry is the decorated object itself, or `make_entry(decorated)` if that is given. The decorators
        `register_format`, `register_model`, ... are built on it; their signatures say what they accept.
        """

        def decorate(decorated: D, /) -> D:
            self.add(name, make_entry(decorated) if make_entry is not None else cast("T", decorated))
            return decorated

        return decorate

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            raise UnknownNameError(f"unknown {self.kind} '{name}'; {closest(name, self._entries)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries
