"""The number formats in a run's graph, by operand."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chop.ir.graph.storage.save_load import GRAPH_FILE
from chop.ir.graph.storage.values import decode_format
from chop.passes.graph.transforms.quantize.summary import TABLE_FILE
from chop.reporting.view.nested_tables import value_at
from chop.reporting.view.run_files import read_csv, read_table
from chop.reporting.view.run_record import RunRecord

NOT_QUANTIZED = "float(32)"


def formats_by_operand(record: RunRecord) -> dict[str, str]:
    """Return the format of each operand, as `{"fc1.weight": "integer(8, 4)"}`; {} if the run has no graph.

    If only the table of layers exists, return the type of each layer instead.
    """
    folder = record.folder
    nodes = value_at(read_table(folder, folder.graph / GRAPH_FILE), "metadata")
    if not isinstance(nodes, Mapping):
        rows = read_csv(folder, folder.transform / TABLE_FILE)
        names = {"New name", "Quantized type"}
        return {row["New name"]: row["Quantized type"] for row in rows if names <= row.keys()}
    operands = {node: value_at(meta, "args") for node, meta in nodes.items()}
    return {
        f"{node}.{operand}": format_text(value_at(tensor, "format"))
        for node, tensors in operands.items()
        if isinstance(tensors, Mapping)
        for operand, tensor in tensors.items()
    }


def format_text(stored: object) -> str:
    """Return a stored format as text."""
    if not isinstance(stored, Mapping):
        return "?"
    try:
        return str(decode_format(stored))
    except (ValueError, LookupError, TypeError):  # the format of a plug-in that is not loaded
        return json.dumps(dict(stored))
