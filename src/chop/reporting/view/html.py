"""HTML elements from Python; text is always escaped, whatever a run or a layer is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from urllib.parse import quote

import chop

NOTHING = "\N{EN DASH}"
"""Shown for a missing value."""
VOID = ("input", "img", "link", "meta")
REPORT_STYLES = ("theme.css", "page.css", "table.css", "narrow.css", "print.css")
VIEW_STYLE, VIEW_SCRIPT = "view.css", "view.js"
ASSETS = {
    # The pages have the styles of the reports.
    **{name: Path(chop.__file__).parent / "page/assets" / name for name in REPORT_STYLES},
    **{name: Path(__file__).parent / "assets" / name for name in (VIEW_STYLE, VIEW_SCRIPT)},
}
STANDALONE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


class Html(str):
    """A string of HTML; any other string is escaped when it is put into an element."""

    __slots__ = ()


Content = str | None | Iterable["str | None"]
"""Text, elements, or several of them; None adds nothing."""


def element(tag: str, attributes: Mapping[str, object] | None = None, *content: Content) -> Html:
    """Return an element with escaped attributes and content; attributes that are None or False are left out."""
    given = {name: value for name, value in (attributes or {}).items() if value is not None and value is not False}
    parts = [tag, *(name if value is True else f'{name}="{escape(str(value))}"' for name, value in given.items())]
    opening = f"<{' '.join(parts)}>"
    return Html(opening if tag in VOID else f"{opening}{join(*content)}</{tag}>")


def join(*content: Content) -> Html:
    """Return the concatenated content; strings that are not `Html` are escaped."""
    parts: list[str] = []
    for each in content:
        if isinstance(each, str):
            parts.append(each if isinstance(each, Html) else escape(each))
        elif each is not None:
            parts.append(join(*each))
    return Html("".join(parts))


def link(address: str, *content: Content) -> Html:
    """Return a link."""
    return element("a", {"href": address}, *content)


def synthetic_badge() -> Html:
    """Return the mark beside the name of a data set whose rows were generated."""
    return element(
        "span", {"class": "badge", "title": "generated rows, not comparable with real data"}, "synthetic"
    )


def section(name: str, title: str, *content: Content) -> Html:
    """Return a section with a heading; `name` is its id, for links."""
    heading = element("h2", {"id": f"{name}-title"}, title)
    return element("section", {"id": name, "aria-labelledby": f"{name}-title"}, heading, *content)


def scrolling(label: str, table: Html) -> Html:
    """Return a table in a box that scrolls, also by keyboard."""
    return element("div", {"class": "scroll", "role": "region", "aria-label": label, "tabindex": "0"}, table)


def sheet(label: str, heads: Iterable[Content], lines: Iterable[Html]) -> Html:
    """Return a table with a line of heads, in a box that scrolls."""
    head = element("thead", None, element("tr", None, [element("th", {"scope": "col"}, each) for each in heads]))
    return scrolling(label, element("table", {"class": "sheet"}, head, element("tbody", None, lines)))


def run_address(name: str) -> str:
    """Return the address of the page of a run."""
    return f"/run/{_quoted(name)}"


def file_address(name: str, *parts: str) -> str:
    """Return the address of a file of a run, given the parts of its path."""
    return "/file/" + "/".join(_quoted(part) for part in (name, *parts))


def _quoted(part: str) -> str:
    return quote(part, safe="", errors="replace")


def page(title: str, lead: Content, *content: Content) -> Html:
    """Return a page of the server, with the styles of the reports."""
    head = _head(
        title,
        [
            element("link", {"rel": "stylesheet", "href": f"/assets/{name}"})
            for name in (*REPORT_STYLES, VIEW_STYLE)
        ],
        element("script", {"src": f"/assets/{VIEW_SCRIPT}", "defer": True}),
    )
    theme = element("button", {"type": "button", "id": "theme", "hidden": True})
    status = element("div", {"id": "status", "class": "unseen", "role": "status", "aria-live": "polite"})
    return _document(head, title, lead, theme, content, status)


def standalone_page(title: str, lead: Content, *content: Content) -> Html:
    """Return a page that needs no server: its styles are part of it, and it has no scripts."""
    styles = "\n".join(ASSETS[name].read_text(encoding="utf-8") for name in (*REPORT_STYLES, VIEW_STYLE))
    policy = {"http-equiv": "Content-Security-Policy", "content": STANDALONE_POLICY}
    head = _head(title, element("meta", policy), element("style", None, Html(styles)))
    return _document(head, title, lead, None, content, None)


def _head(title: str, *content: Content) -> Html:
    return element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("link", {"rel": "icon", "href": "data:,"}),
        element("title", None, title),
        *content,
    )


def _document(
    head: Html, title: str, lead: Content, theme: Html | None, content: Iterable[Content], status: Html | None
) -> Html:
    heading = element("div", None, element("h1", None, title), element("p", {"id": "subtitle"}, lead))
    body = element(
        "body",
        None,
        element("a", {"class": "skip", "href": "#main"}, "Skip to the content"),
        element("header", {"class": "top"}, element("div", {"class": "heading"}, heading, theme)),
        element("main", {"id": "main"}, *content),
        status,
    )
    return Html(f"<!DOCTYPE html>\n{element('html', {'lang': 'en'}, head, body)}\n")
