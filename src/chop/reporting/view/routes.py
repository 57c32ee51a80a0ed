"""Chooses the response to a request by its address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote

from chop.reporting.view.html import ASSETS, Html
from chop.reporting.view.overview import overview_page
from chop.reporting.view.pages import compare_page, run_page
from chop.reporting.view.run_record import RunRecord, find_record, list_records
from chop.reporting.view.run_selection import NUM_COMPARED, RunSelection
from chop.reporting.view.served_files import CONTENT_TYPES, find_file, find_served_run

ASSET_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
FILE_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; frame-ancestors 'none'"
)
"""HTML files of a run may run their own scripts, but may not read other pages or send anything."""


class NotFoundError(LookupError):
    """There is no such page; the message is shown to the user."""


@dataclass(frozen=True)
class Response:
    """Content to send, and the policy for what the browser may do with it."""

    content: bytes | Path
    content_type: str
    policy: str


def respond(root: Path, target: str) -> Response:
    """Return the response to a request target: a path, and after `?` the runs to compare or to show."""
    path, _, query = target.partition("?")
    try:
        parts = tuple(unquote(part, errors="strict") for part in path.split("/"))
    except UnicodeDecodeError:
        raise NotFoundError("there is no such page") from None
    match parts:
        case ("", ""):
            return _page(overview_page(root, list_records(root), RunSelection.read(query)))
        case ("", "run", name):
            return _page(run_page(_record(root, name)))
        case ("", "compare"):
            return _page(compare_page(_compared(root, query)))
        case ("", "file", name, *rest) if (file := _file(root, name, rest)) is not None:
            return Response(file, CONTENT_TYPES[file.suffix], FILE_POLICY)
        case ("", "assets", name) if name in ASSETS:
            return Response(ASSETS[name], ASSET_TYPES[ASSETS[name].suffix], PAGE_POLICY)
        case _:
            raise NotFoundError("there is no such page")


def _file(root: Path, run: str, parts: Sequence[str]) -> Path | None:
    folder = find_served_run(root, run)
    return None if folder is None else find_file(folder.path, tuple(parts))


def _page(html: Html) -> Response:
    # `replace`: JSON can contain half a surrogate pair, which UTF-8 cannot encode.
    return Response(html.encode("utf-8", "replace"), "text/html; charset=utf-8", PAGE_POLICY)


def _record(root: Path, name: str) -> RunRecord:
    record = find_record(root, name)
    if record is None:
        raise NotFoundError("there is no such run")
    return record


def _compared(root: Path, query: str) -> list[RunRecord]:
    try:
        names = list(dict.fromkeys(parse_qs(query, max_num_fields=100).get("run", [])))
    except ValueError:
        names = []
    if len(names) not in NUM_COMPARED:
        raise NotFoundError(f"select {NUM_COMPARED[0]} to {NUM_COMPARED[-1]} runs to compare, not {len(names)}")
    return [_record(root, name) for name in names]
