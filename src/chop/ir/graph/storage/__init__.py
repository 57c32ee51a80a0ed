"""Graphs as files."""

from chop.ir.graph.storage.files import load_graph, read_json, save_graph, write_atomically
from chop.ir.graph.storage.nodes import decode_metas, encode_meta

__all__ = [
    "decode_metas",
    "encode_meta",
    "load_graph",
    "read_json",
    "save_graph",
    "write_atomically",
]
