"""The controls of the overview: the filter, heads that sort, boxes of runs and buttons of pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Self
from urllib.parse import parse_qs

from chop.reporting.view.html import Html, element
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


NUM_COMPARED = range(2, 7)
"""How many runs can be compared."""
TO_OVERVIEW = {"type": "submit", "formaction": "/"}
"""A button that shows other runs; the words, the order and the chosen runs of the form are kept."""


def toolbar(selection: RunSelection | None, count: str) -> Html:
    """Return the filter, and the button that compares; with a selection, the server filters."""
    label = element("span", {"class": "unseen"}, "Filter runs")
    filter_ = element(
        "input",
        {
            "type": "search",
            "id": "filter",
            "name": None if selection is None else "filter",
            "value": None if selection is None else selection.words,
            "placeholder": "Filter runs",
            "autocomplete": "off",
            "spellcheck": "false",
        },
    )
    output = element("output", {"id": "filter-count", "for": "filter"}, count)
    by_server = []
    if selection is not None:
        sort = {"type": "hidden", "name": "sort", "value": selection.sort}
        by_server = [element("button", TO_OVERVIEW, "Filter"), element("input", sort)]
    return element(
        "div",
        {"class": "toolbar"},
        element("label", {"class": "field grow"}, label, filter_, output),
        by_server,
        element("span", {"id": "chosen"}, "select two or more runs"),
        element("button", {"type": "submit", "id": "compare", "data-max": NUM_COMPARED[-1]}, "Compare"),
    )


def column_head(
    selection: RunSelection | None,
    name: str,
    title: str,
    kind: str,
    tooltip: str | None = None,
    sort: str = "text",
) -> Html:
    """Return the head of a column; with a selection, it has the button that the script adds to complete tables."""
    attributes = {"scope": "col", "class": kind, "data-sort": sort, "title": tooltip}
    if selection is None:
        return element("th", attributes, title)
    down = f"-{name}"
    states = {name: "ascending", down: "descending"}
    following = {name: down, down: name}.get(selection.sort, down if sort == "number" else name)
    button = {**TO_OVERVIEW, "name": "sort", "value": following}
    attributes["aria-sort"] = states.get(selection.sort, "none")
    return element("th", attributes, element("button", button, title))


def run_box(name: str, is_chosen: bool) -> Html:
    """Return the box that selects a run to compare."""
    box = {"type": "checkbox", "name": "run", "value": name, "aria-label": f"compare {name}", "checked": is_chosen}
    return element("input", box)


def _page_button(text: str, page: int, last: int) -> Html:
    """Return a button that shows another page, with the same words, order and chosen runs."""
    target = {**TO_OVERVIEW, "name": "page", "value": page, "disabled": not 1 <= page <= last}
    return element("button", target, text)


def page_buttons(page: int, last: int) -> Html:
    """Return the buttons of the pages before and after one."""
    return element(
        "nav",
        {"id": "pages", "aria-label": "Pages"},
        _page_button("Previous", page - 1, last),
        f"page {page:,} of {last:,}",
        _page_button("Next", page + 1, last),
    )


def chosen_elsewhere(names: Sequence[str]) -> Html | None:
    """Return the boxes of the chosen runs that the page does not show."""
    if not names:
        return None
    boxes = [element("label", None, run_box(name, True), " ", name) for name in names]
    return element("p", {"id": "elsewhere"}, "also selected: ", boxes)
