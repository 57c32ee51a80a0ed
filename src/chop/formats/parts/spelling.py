"""Formats as text, such as `integer(width=4, scale=float)`."""

from __future__ import annotations

import ast
import re
from dataclasses import Field
from typing import Any

from chop.display.numbers import counted
from chop.formats.parts.base import FORMATS, Format, parameters
from chop.options import read_options

_WORDS = {"true": True, "false": False, "none": None}
_COMMA = re.compile(r",(?![^\[(]*[\])])")
"""A comma that is not inside a list such as `[16, 16]`."""
_FORMAT = re.compile(r"\s*([\w.-]+)\s*(?:\((.*)\)\s*)?", re.DOTALL)


def spelled_name(text: str) -> str:
    """Return the name before the brackets."""
    return _match(text)[1]


def read_format(text: str, where: str) -> Format:
    """Return the format that a text stands for: a name, and parameters in brackets, such as `scale=float`.

    Values are numbers, lists, `true`, `false`, `none` and words, with or without quotes. Numbers without a name
    come first, the width before the others, as `str` writes them: `integer(8, 4)`.
    """
    match = _match(text)
    cls = FORMATS[match[1]]
    inside = (match[2] or "").strip()
    numbers: list[int | float] = []
    given: dict[str, Any] = {}
    for part in _COMMA.split(inside) if inside else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and not given and _is_number(number := _value(key)):
            numbers.append(number)
        elif not (key and equals and value):
            raise ValueError(f"'{text}': '{part.strip()}' is not a parameter; write 'name=value'")
        elif key in given:
            raise ValueError(f"'{text}': '{key}' is given twice")
        else:
            given[key] = _value(value)
    made = read_options(cls, given, f"{where}: {cls.name}")
    names = ["width", *(field.name for field in parameters(cls) if _is_counted(made, field))]
    if len(numbers) > len(names):
        most = counted(len(names), "number")
        raise ValueError(f"'{text}': {cls.name} takes at most {most} without a name: {', '.join(names)}")
    named = dict(zip(names, numbers, strict=False))
    if twice := named.keys() & given.keys():
        raise ValueError(f"'{text}': '{min(twice)}' is given twice")
    if not any(field.name == "width" for field in parameters(cls)):
        width = named.pop("width", made.width)
        if width != made.width:
            raise ValueError(f"'{text}': this format has {made.width} bits, not {width}")
    return read_options(cls, named | given, f"{where}: {cls.name}")


def _match(text: str) -> re.Match[str]:
    match = _FORMAT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a format; write 'integer' or 'integer(width=4, scale=float)'")
    return match


def _is_counted(made: Format, field: Field[Any]) -> bool:
    """Whether a parameter is one of the numbers that `str` writes without a name."""
    return field.name != "width" and field.metadata["operand_dim"] is None and _is_number(getattr(made, field.name))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
