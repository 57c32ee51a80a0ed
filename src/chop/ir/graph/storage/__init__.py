"""Saving graphs as files."""

from chop.ir.graph.storage.nodes import decode_metas, encode_meta
from chop.ir.graph.storage.save_load import (
    decode_graph,
    encode_graph,
    load_graph,
    read_versioned_json,
    save_graph,
    without_shared_memory,
)

__all__ = [
    "decode_graph",
    "decode_metas",
    "encode_graph",
    "encode_meta",
    "load_graph",
    "read_versioned_json",
    "save_graph",
    "without_shared_memory",
]
