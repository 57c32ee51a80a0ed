"""Options as the text of a TOML file, which reads back to the same options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def to_table(config: object) -> dict[str, Any]:
    """The fields of a dataclass as TOML values; what is None is left out, as TOML has no word for it."""
    assert is_dataclass(config)
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: object) -> Any:
    """A value in the types that TOML has."""
    if is_dataclass(value):
        return to_table(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def write_toml(table: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """The text of a TOML file with a comment for each key of `comments`: values first, then the tables."""
    import tomli_w  # when something is written only: `ch --help` needs none of it

    notes = comments or {}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = {key: f"{key} = {_inline(value)}" for key, value in table.items() if key not in tables}
    width = max((len(line) for line in lines.values()), default=0)
    text = "".join(
        f"{line:<{width}}  # {notes[key]}\n" if key in notes else f"{line}\n" for key, line in lines.items()
    )
    for key, value in tables.items():
        note = f"# {notes[key]}\n" if key in notes else ""
        text += f"\n{note}{tomli_w.dumps({key: value})}"
    return text


def _inline(value: object) -> str:
    """A value on one line, where tomli-w gives every item of a list its own."""
    import tomli_w

    if isinstance(value, list):
        return f"[{', '.join(_inline(each) for each in value)}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")
