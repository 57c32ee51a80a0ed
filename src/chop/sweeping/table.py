"""The columns of the table of a sweep, as the terminal, files, pages and the plot read them from its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chop.display.figures import KeyFigure, figure

COSTS = ("quantized_weight_bits", "quantized_activation_bits", "bitops", "weight_bits")
"""The costs of a setting; add one here, and every table has it."""
NUM_MEASURED = 3
"""The accuracy by which the best setting is chosen, and the two most important metrics on test rows."""
FLOAT_BITS = 32.0
BITS_WITH_SCALES = ("quantized_weight_bits", "quantized_activation_bits")
ACCURACY_ERROR = "accuracy_error"
"""The standard error of the accuracy on test rows, which has the column after it."""


def columns_of(row: Mapping[str, Any]) -> list[KeyFigure]:
    """Return the key figures to show of a row: `{"format": "integer", "bits": 4, "accuracy": 0.9, ...}`."""
    measured = [name for name in row if name not in ("format", "bits", ACCURACY_ERROR, *COSTS)][:NUM_MEASURED]
    if "accuracy" in measured:
        measured.insert(measured.index("accuracy") + 1, ACCURACY_ERROR)
    return [figure(name) for name in (*measured, *COSTS) if name in row]


def cells_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the figures of a row as text, by the title of the column."""
    return {column.column_title: column.column_text(row[column.name]) for column in columns_of(row)}


def exact_cells_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the figures of a row as files hold them: large numbers with all digits, in the unit of the title."""
    cells = {}
    for column in columns_of(row):
        match column.kind:
            case "count":
                cells[column.column_title] = f"{row[column.name]:.12g}"
            case "memory":
                cells[f"{column.column_title} in {column.unit}"] = f"{row[column.name]:.0f}"
            case _:
                cells[column.column_title] = column.column_text(row[column.name])
    return cells
