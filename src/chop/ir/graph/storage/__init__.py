"""Saving graphs as files."""

from chop.ir.graph.storage.nodes import decode_metas, encode_meta
from chop.ir.graph.storage.packed import is_packed_graph, read_packed_graph
from chop.ir.graph.storage.save_load import (
    decode_graph,
    encode_graph,
    is_saved_quantized,
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
    "is_packed_graph",
    "is_saved_quantized",
    "load_graph",
    "read_packed_graph",
    "read_versioned_json",
    "save_graph",
    "without_shared_memory",
]
