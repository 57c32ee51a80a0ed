"""Saving graphs as files."""

from chop.ir.graph.storage.nodes import decode_metas, encode_meta
from chop.ir.graph.storage.save_load import load_graph, read_versioned_json, save_graph

__all__ = [
    "decode_metas",
    "encode_meta",
    "load_graph",
    "read_versioned_json",
    "save_graph",
]
