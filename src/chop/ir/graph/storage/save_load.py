"""A graph as a folder: `graph.json`, and the weights as safetensors. Nothing is pickled."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from chop.ir.graph.graph_module import build_graph, graph_module, has_hooks, records
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.storage.identifiers import check_targets
from chop.ir.graph.storage.layers import TensorStore, decode_module, encode_module
from chop.ir.graph.storage.load_into import put_on
from chop.ir.graph.storage.nodes import decode_metas, decode_node, encode_meta, encode_node

VERSION = 2
GRAPH_FILE = "graph.json"
_DAMAGE = (KeyError, IndexError, TypeError, AttributeError, AssertionError, SyntaxError, RuntimeError)
"""What reading, or building a graph from it, raises where the file holds nonsense. Too deep is a RuntimeError."""


def save_graph(graph: MaseGraph, folder: Path) -> None:
    """Write `graph` into `folder`. An earlier save there stays whole until the new one is complete."""
    store = TensorStore()
    called = frozenset(str(node.target) for node in graph.fx_graph.nodes if node.op == "call_module")
    name = type(graph.model).__name__
    model = encode_module(graph.model, "", store, called)
    if has_hooks(graph.model):
        model["foreign"] = f"{name} with hooks"
    annotated = [node for node in graph.fx_graph.nodes if "mase" in node.meta]
    data: dict[str, Any] = {
        "version": VERSION,
        "name": name,
        "nodes": [encode_node(record) for record in records(graph.fx_graph)],
        "model": model,
        "metadata": {node.name: encode_meta(node.meta["mase"]) for node in annotated},
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights = safetensors.torch.save(_apart(store.tensors))
    # The name tells the content, so that graph.json always points at the weights it was saved with.
    data["weights"] = f"weights-{hashlib.sha256(weights).hexdigest()[:16]}.safetensors"
    earlier = _weights_of_earlier_save(folder / GRAPH_FILE)
    write_atomically(folder / data["weights"], weights)
    try:
        write_atomically(folder / GRAPH_FILE, json.dumps(data, indent=1).encode())
    except OSError:
        if data["weights"] != earlier:
            (folder / data["weights"]).unlink(missing_ok=True)  # without the graph they are of no use
        raise
    if earlier is not None and earlier != data["weights"]:
        (folder / earlier).unlink(missing_ok=True)


def load_graph(folder: Path, into: MaseGraph | None = None) -> MaseGraph:
    """The graph saved in `folder`; built from torch.nn and the op table, or put on a graph of the same model."""
    try:
        data, weights = _read(folder)
        return _build(data, weights) if into is None else put_on(into, data, weights)
    except _DAMAGE as error:
        raise ValueError(f"{folder} is damaged: {type(error).__name__}: {error}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"cannot load {folder}: {error}") from error


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content, or what was there before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def read_json(path: Path, version: int) -> Any:
    """What is in a file of ours, if it is of the version that we read."""
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there is no {path}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from None
    if not isinstance(data, dict) or "version" not in data:
        raise ValueError(f"{path.name} is damaged: it has no version")
    if data["version"] != version:
        raise ValueError(f"it has version {data['version']}, this is version {version}")
    return data


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    data: dict[str, Any] = read_json(folder / GRAPH_FILE, VERSION)
    path = folder / Path(data["weights"]).name
    try:
        return data, safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise ValueError(f"there is no {path}") from None
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged: {error}") from None


def _build(data: Mapping[str, Any], weights: dict[str, Tensor]) -> MaseGraph:
    root = decode_module(data["model"], "", TensorStore(weights))
    nodes = [decode_node(node) for node in data["nodes"]]
    check_targets(root, nodes)
    model = graph_module(root, build_graph(nodes), str(data["name"]))
    check_targets(model, nodes)  # again: a GraphModule has attributes of its own
    graph = MaseGraph(model)
    for node, meta in decode_metas(graph.fx_graph, data["metadata"]).items():
        node.meta["mase"] = meta
    return graph


def _weights_of_earlier_save(path: Path) -> str | None:
    """The name of the weights that belong to a `graph.json`; anything else in a folder is not ours."""
    try:
        name = read_json(path, VERSION)["weights"]
    except (ValueError, KeyError):
        return None
    return name if re.fullmatch(r"weights-[0-9a-f]{16}\.safetensors", str(name)) else None


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share no memory, as safetensors wants them."""
    seen: set[int] = set()
    apart = {}
    for path, tensor in tensors.items():
        address = tensor.untyped_storage().data_ptr()
        apart[path] = tensor.clone() if address in seen else tensor.contiguous()
        seen.add(address)
    return apart
