"""What passes return as `info`: as tables for the terminal, and as JSON for the run folder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from chop.display.numbers import table_number

MAX_ROWS = 40
MAX_COLUMNS = 9
MAX_TENSOR_SIZE = 1000
"""Elements of a tensor that is written to JSON; of larger ones, only the shape is."""


@dataclasses.dataclass(frozen=True)
class InfoTable:
    """A part of an `info` that fits a terminal."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables_of(info: Mapping[str, Any]) -> list[InfoTable]:
    """Return the parts of an `info` that can be shown as tables: numbers, texts, up to three levels of dicts."""
    single = [
        (str(name), _cell(value)) for name, value in info.items() if _is_cell(value) and value not in ([], ())
    ]
    tables = [InfoTable(("result", "value"), single)] if single else []
    nested = {name: value for name, value in info.items() if not _is_cell(value)}
    if len(nested) > 1 and all(_is_row(value) for value in nested.values()):
        return [*tables, *_table("name", nested)]
    for name, value in nested.items():
        tables += _tables_of_part(str(name), value)
    return tables


def to_json(value: object) -> Any:
    """Return a value of an `info` as JSON can hold it; what has no such form is described by its text."""
    if isinstance(value, Tensor):
        small = value.numel() <= MAX_TENSOR_SIZE
        return to_json(value.tolist()) if small else {"shape": list(value.shape), "dtype": str(value.dtype)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # a data frame
        return to_json(value.to_dict("records"))
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [to_json(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _tables_of_part(name: str, value: object) -> list[InfoTable]:
    plain = to_json(value)
    if isinstance(plain, list) and plain and all(isinstance(each, Mapping) for each in plain):
        return _table(name, dict(enumerate(plain)))
    if not isinstance(plain, Mapping) or not plain:
        return []
    if all(_is_cell(each) for each in plain.values()):
        return _limited((name, "value"), [(str(key), _cell(each)) for key, each in plain.items()])
    if all(_is_row(each) for each in plain.values()):
        return _table(name, plain)
    if all(isinstance(each, Mapping) and all(_is_row(row) for row in each.values()) for each in plain.values()):
        return _table(name, {f"{a}.{b}": row for a, rows in plain.items() for b, row in rows.items()})
    return []


def _table(name: str, rows: Mapping[Any, Mapping[str, Any]]) -> list[InfoTable]:
    columns = list(dict.fromkeys(str(key) for row in rows.values() for key in row))
    if not columns or len(columns) > MAX_COLUMNS:
        return []
    cells = [[str(key), *(_cell(row.get(column)) for column in columns)] for key, row in rows.items()]
    return _limited((name, *columns), cells)


def _limited(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[InfoTable]:
    if len(rows) > MAX_ROWS:
        rows = [*rows[:MAX_ROWS], [f"and {len(rows) - MAX_ROWS} more", *[""] * (len(headers) - 1)]]
    return [InfoTable(headers, rows)]


def _is_row(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_cell(each) for each in value.values())


def _is_cell(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(each is None or isinstance(each, str | int | float) for each in value)
    return value is None or isinstance(value, str | int | float)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_cell(each) for each in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return "" if value is None else str(value)
    assert isinstance(value, int | float), "checked by _is_cell"
    return table_number(value) if math.isfinite(value) else str(value)
