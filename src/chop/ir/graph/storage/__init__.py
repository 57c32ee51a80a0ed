"""Saving graphs as files."""

from chop.ir.graph.storage.nodes import decode_metas, encode_meta
from chop.ir.graph.storage.packed import is_packed_graph, read_packed_graph
from chop.ir.graph.storage.save_load import (
    GRAPH_FILE,
    MODULE_FILE,
    decode_graph,
    encode_graph,
    is_saved_quantized,
    load_graph,
    load_module,
    read_versioned_json,
    save_graph,
    save_module,
    without_shared_memory,
)

__all__ = [
    "GRAPH_FILE",
    "MODULE_FILE",
    "decode_graph",
    "decode_metas",
    "encode_graph",
    "encode_meta",
    "is_packed_graph",
    "is_saved_quantized",
    "load_graph",
    "load_module",
    "read_packed_graph",
    "read_versioned_json",
    "save_graph",
    "save_module",
    "without_shared_memory",
]
