"""The number formats of a run's graph, operand by operand."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chop.formats.base import Format, parameters
from chop.ir.graph.storage.values import decode_format
from chop.reporting.view.reading import at, read_csv, read_table
from chop.reporting.view.run_record import Record

TRANSFORM = ("software", "transform")
PLAIN = "float(32)"


def formats_of(record: Record) -> dict[str, str]:
    """The format of each operand as `{node.operand: integer(8, 4)}`; {} where the run keeps no graph.

    Without the graph, the type of each layer, as the table of `ch transform` has it.
    """
    graph = read_table(record.folder, *TRANSFORM, "transformed_ckpt", "graph.json")
    nodes = at(graph, "metadata")
    if not isinstance(nodes, Mapping):
        table = read_csv(record.folder, *TRANSFORM, "quantize_table.csv")
        return {
            row["New name"]: row["Quantized type"] for row in table if {"New name", "Quantized type"} <= row.keys()
        }
    operands = {node: at(meta, "args") for node, meta in nodes.items()}
    return {
        f"{node}.{operand}": format_text(at(tensor, "format"))
        for node, tensors in operands.items()
        if isinstance(tensors, Mapping)
        for operand, tensor in tensors.items()
    }


def format_text(record: object) -> str:
    """A format as text: its width and other numbers, then whatever else is not as usual."""
    if not isinstance(record, Mapping):
        return "?"
    try:
        found = decode_format(record)
    except (ValueError, LookupError, TypeError):  # of a plug-in that is not here
        return json.dumps(dict(record))
    return ", ".join([str(found), *_unusual(found)])


def _unusual(found: Format) -> list[str]:
    """Parameters that its numbers do not show, and that differ from the default."""
    given = [(field, getattr(found, field.name)) for field in parameters(type(found)) if field.name != "width"]
    return [
        f"{field.name} = {value}"
        for field, value in given
        if field.metadata["place"] is None and value != field.default and value not in found.precision
    ]
