"""Converting columns of a user's table to numbers and classes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from chop.dataset.readers.errors import shorten
from chop.display.launcher import data_option
from chop.display.numbers import counted
from chop.registry import closest

if TYPE_CHECKING:
    from pandas import DataFrame, Series

logger = logging.getLogger(__name__)

LABELS = ("label", "class", "target", "y")  # default names of the label column
MAX_NAMES_SHOWN = 12  # in an error message
MAX_PROBLEMS_SHOWN = 5  # columns that do not hold numbers
MAX_CLASS_NAME = 60  # characters; the rest of longer ones is not shown
MANY_CLASSES, MIN_ROWS_PER_CLASS = 50, 20
"""More classes than this with fewer rows each are probably not classes."""


def pick_label(columns: Sequence[str], label: str | None, where: str, candidates: Sequence[str] = LABELS) -> str:
    """Return the name of the label column: `label`, or else the only one of `candidates` in `columns`."""
    if label is not None:
        if label not in columns:
            hint = closest(label, columns)
            hint = f"{hint} its" if hint.startswith("did you mean") else "its"
            raise ValueError(f"{where} has no column '{label}'; {hint} columns: {_list(columns)}")
        return label
    found = [name for name in candidates if name in columns]
    if not found:
        raise ValueError(
            f"{where} has no column called {', '.join(candidates)}: name the label column with "
            f"{data_option('label=')}; its columns: {_list(columns)}"
        )
    if len(found) > 1:
        raise ValueError(
            f"{where} has several possible label columns, {', '.join(found)}: choose one with "
            f"{data_option('label=')}, and leave the others out with {_ignore_option(found[1:])}"
        )
    return found[0]


def to_numbers(frame: DataFrame, where: str) -> Tensor:
    """Return all columns as float32 [rows, columns]; a value that is not a finite number is an error."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    bad = {
        str(name): column
        for name, column in frame.items()
        if not (is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype)) or is_complex_dtype(column.dtype)
    }
    if bad:
        problems = [f"column '{name}' {_describe_text(bad[name])}" for name in list(bad)[:MAX_PROBLEMS_SHOWN]]
        leave_out = f"leave {'it' if len(bad) == 1 else 'them'} out with {_ignore_option(list(bad))}"
        raise ValueError(f"{where}: {', '.join([*problems, *_rest(bad)])}; {leave_out}")
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return finite(values, [str(name) for name in frame.columns], where)


def _rest(bad: Collection[object]) -> list[str]:
    return [f"and {len(bad) - MAX_PROBLEMS_SHOWN} more"] if len(bad) > MAX_PROBLEMS_SHOWN else []


def _ignore_option(columns: Sequence[str]) -> str:
    return data_option(f"ignore={','.join(columns)}")


def _describe_text(column: Series) -> str:
    """Return what is wrong with a column that does not hold numbers, with an example."""
    import pandas as pd

    if column.isna().all():
        return "is empty"
    values = column.dropna()
    if pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype):
        text = values[pd.to_numeric(values, errors="coerce").isna()]
        values = text if len(text) else values
    return f"is not numeric ({str(values.iloc[0])!r} in row {values.index[0] + 1})"


def finite(values: npt.NDArray[Any], names: Sequence[str], where: str) -> Tensor:
    """Return `values` [rows, columns] as float32; raise an error if one is not finite."""
    with np.errstate(over="ignore"):  # values that are too large become infinite, and are found below
        numbers = values.astype(np.float32)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        bad = np.flatnonzero(wrong.any(axis=0)).tolist()
        problems = [
            f"column '{names[column]}' has {counted(int(wrong[:, column].sum()), 'missing or infinite value')}, "
            f"first in row {int(wrong[:, column].argmax()) + 1}"
            for column in bad[:MAX_PROBLEMS_SHOWN]
        ]
        raise ValueError(f"{where}: {'; '.join([*problems, *_rest(bad)])}")
    return torch.from_numpy(np.ascontiguousarray(numbers))


def to_classes(values: Iterable[Any], where: str) -> tuple[Tensor, tuple[str, ...]]:
    """Return class indices (int64) and class names, sorted by number or alphabetically."""
    import pandas as pd

    labels = _clean_labels(values, where)
    numbers, names = pd.factorize(labels, sort=True)
    if len(names) < 2:
        raise ValueError(f"{where}: all labels are '{names[0]}'; at least two classes are required")
    if len(names) > MANY_CLASSES and len(labels) < MIN_ROWS_PER_CLASS * len(names):
        logger.warning(
            "%s: %d rows have %d different labels; if this column is an identifier or a measurement, choose "
            "another one with %s",
            *(where, len(labels), len(names), data_option("label=")),
        )
    return torch.from_numpy(numbers.astype(np.int64)), tuple(shorten(str(name), MAX_CLASS_NAME) for name in names)


def _clean_labels(values: Iterable[Any], where: str) -> npt.NDArray[Any]:
    """Return integer labels as int64, all others as text; raise an error if one is missing."""
    import pandas as pd

    column = pd.Series(values).reset_index(drop=True)
    if column.empty:
        raise ValueError(f"{where}: there are no rows")
    if column.dtype == object:
        column = column.map(lambda value: value.decode("utf-8", "replace") if isinstance(value, bytes) else value)
    missing = column.isna() | (column.astype(str) == "")
    if missing.all():
        raise ValueError(f"{where}: there are no labels")
    if missing.any():
        count, first = int(missing.sum()), int(missing.argmax())
        raise ValueError(f"{where}: {count} label(s) are missing, first in row {first + 1}")
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        _check_integers(column, where)
        return column.to_numpy(dtype=np.int64)
    return column.astype(str).to_numpy(dtype=object)  # NumPy's text type drops zero bytes at the end


def _check_integers(column: Series, where: str) -> None:
    """Raise an error if a number is not an integer, or so large that other integers become the same label."""
    from pandas.api.types import is_complex_dtype, is_float_dtype

    broken = column if is_complex_dtype(column.dtype) else column[column != column.round()]
    if len(broken):
        raise ValueError(f"{where}: labels must be names or integers, got {broken.iloc[0]:g}")
    power = 53 if is_float_dtype(column.dtype) else 63
    large = column[column.abs() >= 2**power]
    if len(large):
        raise ValueError(f"{where}: integer labels must be smaller than 2**{power} here, got {large.iloc[0]}")


def _list(columns: Sequence[str]) -> str:
    rest = len(columns) - MAX_NAMES_SHOWN
    return ", ".join(columns[:MAX_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
