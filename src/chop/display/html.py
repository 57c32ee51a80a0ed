"""Small pieces of HTML for notebooks."""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Sequence
from pathlib import Path

from chop.files import read_file

MAX_ROWS = 200


def html_table(
    headers: Sequence[object], rows: Sequence[Sequence[object]], caption: str = "", max_rows: int = MAX_ROWS
) -> str:
    """Return a table, cut after `max_rows`; all texts are escaped."""
    head = "".join(f"<th>{_text(each)}</th>" for each in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:max_rows])
    more = f"<p>{len(rows) - max_rows} more rows</p>" if len(rows) > max_rows else ""
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def html_image(path: Path) -> str:
    """Return the PNG file at `path` as an image that needs no file."""
    return png_image(read_file(path), path.stem)


def png_image(data: bytes, alt: str) -> str:
    """Return the content of a PNG file as an image; `alt` is read out by screen readers."""
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return f'<img style="max-width: min(640px, 100%)" alt="{_text(alt)}" src="{source}">'


def html_heading(text: str) -> str:
    """Return a line in bold."""
    return f"<p><b>{_text(text)}</b></p>"


def shown_in_notebook(headers: Sequence[object], rows: Sequence[Sequence[object]]) -> bool:
    """Show a table below the cell of a notebook that runs, and return True; return False anywhere else.

    Printed tables are hard to read in a notebook, which wraps lines that are longer than the cell.
    """
    if type(sys.stdout).__module__ != "ipykernel.iostream":
        return False
    from IPython.display import HTML, display

    table = html_table(headers, rows, max_rows=len(rows))
    display(HTML(f'<div style="max-height: 40em; overflow: auto">{table}</div>'))  # type: ignore[no-untyped-call]
    return True


def _cell(value: object) -> str:
    text = _text(value)
    style = (
        ' style="white-space: pre; font-family: monospace; text-align: left; vertical-align: top"'
        if "\n" in text
        else ""
    )
    return f"<td{style}>{text}</td>"


def _text(value: object) -> str:
    return html.escape(str(value))
