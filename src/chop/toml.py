"""Writes options as the text of a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def to_table(config: object) -> dict[str, Any]:
    """Return the fields of a dataclass as TOML values, without those that are None: TOML has no null."""
    assert is_dataclass(config)
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return {name: to_toml_value(value) for name, value in values.items() if value is not None}


def to_toml_value(value: object) -> Any:
    """Convert a value to the types of TOML: dataclasses to tables, tuples to lists, paths to strings."""
    if is_dataclass(value):
        return to_table(value)
    if isinstance(value, Mapping):
        return {str(key): to_toml_value(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [to_toml_value(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def write_toml(table: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """Return the text of a TOML file: values first, then tables, with `comments` on the keys they name."""
    import tomli_w  # imported when something is written: `ch --help` stays fast

    notes = comments or {}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = {key: f"{key} = {_on_one_line(value)}" for key, value in table.items() if key not in tables}
    width = max((len(line) for line in lines.values()), default=0)
    text = "".join(
        f"{line:<{width}}  # {notes[key]}\n" if key in notes else f"{line}\n" for key, line in lines.items()
    )
    for key, value in tables.items():
        note = f"# {notes[key]}\n" if key in notes else ""
        text += f"\n{note}{tomli_w.dumps({key: value})}"
    return text


def _on_one_line(value: object) -> str:
    """Return a value as TOML on one line; tomli-w puts every item of a list on its own line."""
    import tomli_w

    if isinstance(value, list):
        return f"[{', '.join(_on_one_line(each) for each in value)}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")
