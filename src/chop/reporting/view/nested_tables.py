"""Values in nested tables of unknown content, as JSON and TOML files hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

MAX_INTEGER = 10**300
"""Larger integers cannot be converted to a float."""
MAX_DEPTH = 12
"""Tables nested deeper than this are shown as one value."""


def value_at(table: object, *keys: str) -> Any:
    """Return the value at nested keys: `value_at(t, "a", "b")` is `t["a"]["b"]`; None if a key is missing."""
    for key in keys:
        if not isinstance(table, Mapping):
            return None
        table = table.get(key)
    return table


def number_at(table: object, *keys: str) -> float | None:
    """Return the number at nested keys; None if there is none."""
    found = value_at(table, *keys)
    return found if is_number(found) else None


def text_at(table: object, *keys: str) -> str | None:
    """Return the text at nested keys; None if there is none."""
    found = value_at(table, *keys)
    return found if isinstance(found, str) else None


def tables_at(table: object, *keys: str) -> list[Mapping[str, Any]]:
    """Return the tables in the list at nested keys."""
    found = value_at(table, *keys)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number that can be used in calculations."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < MAX_INTEGER
    return isinstance(value, float)


def flatten(table: Mapping[str, Any], prefix: str = "", depth: int = MAX_DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield all values of nested tables with their dotted keys, as in TOML: `passes.quantize.by`."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value and depth > 1:
            yield from flatten(value, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value
