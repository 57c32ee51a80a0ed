"""Graphs as files."""

from chop.ir.graph.storage.files import has_metadata, load_graph, read_json, save_graph, write_atomically
from chop.ir.graph.storage.nodes import decode_meta, encode_meta

__all__ = [
    "decode_meta",
    "encode_meta",
    "has_metadata",
    "load_graph",
    "read_json",
    "save_graph",
    "write_atomically",
]
