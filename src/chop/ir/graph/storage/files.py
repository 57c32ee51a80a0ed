"""A graph as a folder: `graph.json`, and the weights as safetensors. Nothing is pickled."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.module import build_graph, graph_module, records
from chop.ir.graph.storage.layers import TensorStore, decode_module, encode_module, modules_of, requantize
from chop.ir.graph.storage.nodes import decode_meta, decode_node, encode_meta, encode_node

VERSION = 1
GRAPH_FILE = "graph.json"


def save_graph(graph: MaseGraph, folder: Path) -> None:
    """Write `graph` into `folder`. An earlier save there stays whole until the new one is complete."""
    store = TensorStore()
    called = frozenset(str(node.target) for node in graph.fx_graph.nodes if node.op == "call_module")
    model = encode_module(graph.model, "", store, called)
    data: dict[str, Any] = {
        "version": VERSION,
        "name": type(graph.model).__name__,
        "nodes": [encode_node(record) for record in records(graph.fx_graph)],
        "model": model,
        "metadata": {m.node.name: encode_meta(m) for m in graph.metas()} if has_metadata(graph) else {},
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights = safetensors.torch.save(_apart(store.tensors))
    # The name tells the content, so that graph.json always points at the weights it was saved with.
    data["weights"] = f"weights-{hashlib.sha256(weights).hexdigest()[:16]}.safetensors"
    write_atomically(folder / data["weights"], weights)
    write_atomically(folder / GRAPH_FILE, json.dumps(data, indent=1).encode())
    for other in folder.glob("weights-*.safetensors"):
        if other.name != data["weights"]:
            other.unlink()


def load_graph(folder: Path, into: MaseGraph | None = None) -> MaseGraph:
    """The graph saved in `folder`; built from torch.nn and the op table, or put on a graph of the same model."""
    try:
        data, weights = _read(folder)
        graph = _build(data, weights) if into is None else _put_on(into, data, weights)
        _load_metadata(graph, data["metadata"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder} is damaged: {type(error).__name__}: {error}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"cannot load {folder}: {error}") from error
    return graph


def has_metadata(graph: MaseGraph) -> bool:
    return all("mase" in node.meta for node in graph.fx_graph.nodes)


def write_atomically(path: Path, content: bytes) -> None:
    """The whole content, or what was there before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there is no {path}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from None


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    data: dict[str, Any] = read_json(folder / GRAPH_FILE)
    if data["version"] != VERSION:
        raise ValueError(f"it has version {data['version']}, this is version {VERSION}")
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
    return MaseGraph(graph_module(root, build_graph(nodes), data["name"]))


def _put_on(graph: MaseGraph, data: Mapping[str, Any], weights: dict[str, Tensor]) -> MaseGraph:
    """Formats and weights of a save on a graph that was traced from the same model."""
    saved, present = [node["name"] for node in data["nodes"]], [node.name for node in graph.fx_graph.nodes]
    if saved != present:
        raise ValueError(f"it holds another model: its nodes are {saved}, those of the graph are {present}")
    for path, record in modules_of(data["model"]):
        if "quantized" in record:
            parent, _, name = path.rpartition(".")
            layer = requantize(graph.model.get_submodule(path), record["quantized"])
            setattr(graph.model.get_submodule(parent), name, layer)
    for node, saved_node in zip(graph.fx_graph.nodes, data["nodes"], strict=True):
        if isinstance(saved_node["target"], dict) and "quantized" in saved_node["target"]:
            node.target = decode_node(saved_node).target
            node.op = "call_function"
    _load_tensors(graph, data["model"], TensorStore(weights))
    graph.model.recompile()
    return graph


def _load_tensors(graph: MaseGraph, model: Mapping[str, Any], store: TensorStore) -> None:
    saved: dict[str, Tensor] = {}
    for path, record in modules_of(model):
        graph.model.get_submodule(path).training = record["training"]
        for name, tensor in (*record["parameters"].items(), *record["buffers"].items()):
            if tensor is not None and name not in record["not_saved"]:
                saved[f"{path}.{name}" if path else name] = store.get(tensor).detach()
    try:
        graph.model.load_state_dict(saved)
    except RuntimeError as error:
        raise ValueError(f"its weights do not fit the graph: {error}") from None


def _load_metadata(graph: MaseGraph, metadata: Mapping[str, Any]) -> None:
    for node in graph.fx_graph.nodes:
        if node.name in metadata:
            node.meta["mase"] = decode_meta(metadata[node.name], node)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share no memory, as safetensors wants them."""
    seen: set[int] = set()
    apart = {}
    for path, tensor in tensors.items():
        address = tensor.untyped_storage().data_ptr()
        apart[path] = tensor.clone() if address in seen else tensor.contiguous()
        seen.add(address)
    return apart
