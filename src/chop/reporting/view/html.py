"""HTML from Python, in which text is text: whatever a run or a layer is called, it stays that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import quote

NOTHING = "\N{EN DASH}"
"""Where there is no value."""
VOID = ("input", "img", "link", "meta")
REPORT_STYLES = ("theme.css", "page.css", "table.css", "narrow.css", "print.css")
OWN_STYLE, SCRIPT = "view.css", "view.js"


class Html(str):
    """HTML already; any other string is escaped when it goes into an element."""

    __slots__ = ()


Content = str | None | Iterable["str | None"]
"""Text, elements, or several of them; None is nothing."""


def element(tag: str, attributes: Mapping[str, object] | None = None, *content: Content) -> Html:
    """An element with escaped attributes and content. An attribute that is None or False is left out."""
    given = {name: value for name, value in (attributes or {}).items() if value is not None and value is not False}
    words = [tag, *(name if value is True else f'{name}="{escape(str(value))}"' for name, value in given.items())]
    opening = f"<{' '.join(words)}>"
    return Html(opening if tag in VOID else f"{opening}{join(*content)}</{tag}>")


def join(*content: Content) -> Html:
    """Content one after the other, escaped where it is not HTML."""
    parts: list[str] = []
    for each in content:
        if isinstance(each, str):
            parts.append(each if isinstance(each, Html) else escape(each))
        elif each is not None:
            parts.append(join(*each))
    return Html("".join(parts))


def link(address: str, *content: Content) -> Html:
    return element("a", {"href": address}, *content)


def section(name: str, title: str, *content: Content) -> Html:
    """A part of a page with a heading; `name` is what an address may point at."""
    heading = element("h2", {"id": f"{name}-title"}, title)
    return element("section", {"id": name, "aria-labelledby": f"{name}-title"}, heading, *content)


def scrolling(label: str, table: Html) -> Html:
    """A wide table that scrolls by itself, with the keyboard too."""
    return element("div", {"class": "scroll", "role": "region", "aria-label": label, "tabindex": "0"}, table)


def run_address(name: str) -> str:
    return f"/run/{_quoted(name)}"


def file_address(name: str, *parts: str) -> str:
    return "/file/" + "/".join(_quoted(part) for part in (name, *parts))


def _quoted(part: str) -> str:
    return quote(part, safe="", errors="replace")


def page(title: str, lead: Content, *content: Content) -> Html:
    """A whole page in the look of the reports."""
    head = element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("link", {"rel": "icon", "href": "data:,"}),
        element("title", None, title),
        [element("link", {"rel": "stylesheet", "href": f"/assets/{name}"}) for name in (*REPORT_STYLES, OWN_STYLE)],
        element("script", {"src": f"/assets/{SCRIPT}", "defer": True}),
    )
    theme = element("button", {"type": "button", "id": "theme", "hidden": True})
    heading = element("div", None, element("h1", None, title), element("p", {"id": "subtitle"}, lead))
    body = element(
        "body",
        None,
        element("a", {"class": "skip", "href": "#main"}, "Skip to the content"),
        element("header", {"class": "top"}, element("div", {"class": "heading"}, heading, theme)),
        element("main", {"id": "main"}, *content),
        element("div", {"id": "status", "class": "unseen", "role": "status", "aria-live": "polite"}),
    )
    return Html(f"<!DOCTYPE html>\n{element('html', {'lang': 'en'}, head, body)}\n")
