"""Which runs a page of the overview shows: those with some words, sorted by a column, a part at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Self
from urllib.parse import parse_qs

from chop.reporting.view.html import Html
from chop.reporting.view.run_record import RunRecord

PAGE_SIZE = 200
MAX_FIELDS = 1000  # of an address
SortValues = Mapping[str, Callable[[RunRecord], float | str | None]]


@dataclass(frozen=True)
class RunSelection:
    """What an address of the overview asks for."""

    words: str = ""
    sort: str = ""
    """The name of a column; after `-`, the largest values come first."""
    page: int = 1
    chosen: tuple[str, ...] = ()
    """The runs to compare, also those on other pages."""

    @classmethod
    def read(cls, query: str) -> Self:
        """Return what the query of an address asks for; what it does not say has its default."""
        try:
            given = parse_qs(query, max_num_fields=MAX_FIELDS)
        except ValueError:
            return cls()
        words, sort, page = (given.get(name, [""])[-1] for name in ("filter", "sort", "page"))
        number = int(page) if re.fullmatch("[1-9][0-9]{0,8}", page) else 1
        return cls(words, sort, number, tuple(dict.fromkeys(given.get("run", ()))))

    def matching(self, records: Sequence[RunRecord], row: Callable[[RunRecord], Html]) -> list[RunRecord]:
        """Return the runs whose row in the table has all words."""
        words = self.words.lower().split()
        return [record for record in records if not words or _has_all(row(record), words)]

    def sorted(self, records: Sequence[RunRecord], values: SortValues) -> list[RunRecord]:
        """Return the runs in the order of a column; those without a value come last."""
        value = values.get(self.sort.removeprefix("-"))
        if value is None:
            return list(records)
        known = [(found, record) for record in records if (found := value(record)) is not None]
        known.sort(key=lambda pair: _order(pair[0]), reverse=self.sort.startswith("-"))
        return [record for _, record in known] + [record for record in records if value(record) is None]


def _has_all(row: Html, words: Sequence[str]) -> bool:
    text = unescape(re.sub("<[^>]*>", " ", row)).lower()
    return all(word in text for word in words)


def _order(value: float | str) -> list[tuple[float, str]]:
    """Return a key that sorts numbers by value, and text with `_10` after `_9`, as the script does."""
    if not isinstance(value, str):
        return [(value, "")]
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", value.casefold())]
