"""Formats as text, such as `integer(width=4, scale=float)`."""

from __future__ import annotations

import ast
import re
from typing import Any

_WORDS = {"true": True, "false": False, "none": None}
_COMMA = re.compile(r",(?![^\[(]*[\])])")
"""A comma that is not inside a list such as `[16, 16]`."""


def read_spelling(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a format and the parameters in brackets after it, if there are any.

    Values are numbers, lists, `true`, `false`, `none` and words, with or without quotes.
    """
    match = re.fullmatch(r"\s*([\w.-]+)\s*(?:\((.*)\)\s*)?", text, re.DOTALL)
    if match is None:
        raise ValueError(f"'{text}' is not a format; write 'integer' or 'integer(width=4, scale=float)'")
    name, inside = match[1], (match[2] or "").strip()
    given: dict[str, Any] = {}
    for part in _COMMA.split(inside) if inside else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f"'{text}': '{part.strip()}' is not a parameter; write 'name=value'")
        if key in given:
            raise ValueError(f"'{text}': '{key}' is given twice")
        given[key] = _value(value)
    return name, given


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
