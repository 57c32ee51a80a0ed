"""Saving a graph in a folder: `graph.json`, and the weights as safetensors. Nothing is pickled."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from chop.files import CorruptFileError, atomic_path, check_regular, read_json, write_json
from chop.ir.graph.graph_module import build_graph, graph_module, has_hooks, records
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.storage.checks import check_starred_inputs, check_targets
from chop.ir.graph.storage.layers import TensorStore, decode_module, encode_module, modules_of
from chop.ir.graph.storage.load_into import load_into, load_into_module
from chop.ir.graph.storage.nodes import decode_metas, decode_nodes, encode_meta, encode_node
from chop.nn.quantized import QuantizedLayer

VERSION = 2
GRAPH_FILE = "graph.json"
MODULE_FILE = "module.json"
"""In place of graph.json for a model without a graph: it has the formats, but not what computes."""
_FILES = (GRAPH_FILE, MODULE_FILE)
T = TypeVar("T")
_CORRUPT = (KeyError, IndexError, TypeError, AttributeError, AssertionError, SyntaxError, RuntimeError)
"""Errors that reading a corrupt file raises; nesting that is too deep is a RuntimeError."""


def encode_graph(graph: MaseGraph) -> tuple[dict[str, Any], TensorStore]:
    """Return the JSON record of a graph, and its tensors."""
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
    return data, store


def save_graph(graph: MaseGraph, folder: Path) -> None:
    """Write `graph` into `folder`. An earlier save in it stays intact until the new one is complete."""
    _write(folder, GRAPH_FILE, *encode_graph(graph))


def save_module(model: nn.Module, folder: Path) -> None:
    """Write the weights, formats and modes of a model without a graph into `folder`, for `load_module`."""
    store, name = TensorStore(), type(model).__name__
    quantized = frozenset(path for path, module in model.named_modules() if isinstance(module, QuantizedLayer))
    record = encode_module(model, "", store, quantized)
    _write(folder, MODULE_FILE, {"version": VERSION, "name": name, "model": record}, store)


def _write(folder: Path, file: str, data: dict[str, Any], store: TensorStore) -> None:
    """Write a JSON record and its weights. The earlier ones stay intact until the new ones are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = without_shared_memory(store.tensors)
    # The name depends on the content, so that the record always refers to the weights it was saved with.
    data["weights"] = f"weights-{_digest(weights)}.safetensors"
    earlier = {found for each in _FILES if (found := _weights_of(folder / each))}
    with atomic_path(folder / data["weights"]) as temporary:
        try:
            safetensors.torch.save_file(weights, temporary)
        except SafetensorError as error:  # the disk is full, for example
            raise OSError(f"cannot write {folder / data['weights']}: {error}") from error
    try:
        write_json(folder / file, data, indent=1)
    except OSError:
        if data["weights"] not in earlier:
            (folder / data["weights"]).unlink(missing_ok=True)  # useless without the graph
        raise
    for name in {*earlier, *_FILES} - {file, data["weights"]}:
        (folder / name).unlink(missing_ok=True)


def _weights_of(path: Path) -> str | None:
    """Return the name of the weights of a record that we have written; None if there is none."""
    with suppress(ValueError, KeyError):
        name = str(read_versioned_json(path, VERSION)["weights"])
        return name if re.fullmatch(r"weights-[0-9a-f]{16}\.safetensors", name) else None
    return None


def load_graph(folder: Path, into: MaseGraph | None = None) -> MaseGraph:
    """Return the graph saved in `folder`: newly built, or loaded into `into`, a graph of the same model."""
    return decode_graph(folder, partial(_read, folder, GRAPH_FILE), into)


def load_module(folder: Path, into: nn.Module) -> nn.Module:
    """Return `into`, a model of the same class, in the state that `save_module` has written."""
    read = partial(_read, folder, MODULE_FILE)
    return _explained(folder, lambda: load_into_module(into, *read()))


def is_saved_quantized(folder: Path) -> bool:
    """Whether the graph saved in `folder` has number formats; no for one that cannot be read."""
    try:
        data = read_versioned_json(folder / GRAPH_FILE, VERSION)
        records = [*data["nodes"], *(record for _, record in modules_of(data["model"]))]
        return any("quantized" in record for record in records)
    except (*_CORRUPT, ValueError):
        return False


def decode_graph(
    source: Path, read: Callable[[], tuple[dict[str, Any], dict[str, Tensor]]], into: MaseGraph | None = None
) -> MaseGraph:
    """Return the graph of the JSON record and the tensors that `read` returns; `source` names them in errors."""

    def decode() -> MaseGraph:
        data, weights = read()
        return _build(data, weights) if into is None else load_into(into, data, weights)

    return _explained(source, decode)


def _explained(source: Path, decode: Callable[[], T]) -> T:
    """Return what `decode` returns; errors name the source."""
    try:
        return decode()
    except _CORRUPT as error:
        raise CorruptFileError(f"{source} is corrupt: {type(error).__name__}: {error}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"cannot load {source}: {error}") from error


def read_versioned_json(
    path: Path, version: int, read: Callable[[Path], dict[str, Any]] = read_json
) -> dict[str, Any]:
    """Return the JSON object in a file, if its key `version` has the value that this code reads.

    `read` reads files of other kinds.
    """
    try:
        data = read(path)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    if "version" not in data:
        raise CorruptFileError(f"{path} is corrupt: it has no version")
    if data["version"] != version:
        raise ValueError(f"{path.name} has version {data['version']}, but version {version} is required")
    return data


def _read(folder: Path, file: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    data = read_versioned_json(folder / file, VERSION)
    path = folder / Path(data["weights"]).name
    check_regular(path)
    try:
        return data, safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except SafetensorError as error:
        raise CorruptFileError(f"{path} is corrupt: {error}") from None


def _build(data: Mapping[str, Any], weights: dict[str, Tensor]) -> MaseGraph:
    root = decode_module(data["model"], "", TensorStore(weights))
    nodes = decode_nodes(data["nodes"])
    check_targets(root, nodes)
    check_starred_inputs(nodes)
    model = graph_module(root, build_graph(nodes), str(data["name"]))
    check_targets(model, nodes)  # again: a GraphModule has further attributes
    graph = MaseGraph(model)
    for node, meta in decode_metas(graph.fx_graph, data["metadata"]).items():
        node.meta["mase"] = meta
    return graph


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the start of the SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def without_shared_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without shared memory, as safetensors requires."""
    seen: set[int] = set()
    separate = {}
    for path, tensor in tensors.items():
        address = tensor.untyped_storage().data_ptr()
        separate[path] = tensor.clone() if address in seen else tensor.contiguous()
        seen.add(address)
    return separate
