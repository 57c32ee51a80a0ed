"""Save a graph, or the metadata of its nodes, and load it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from torch import fx

from chop.files import CorruptFileError, read_toml, write_json, write_text
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.storage import decode_metas, encode_meta, load_graph, read_versioned_json, save_graph
from chop.options import read_options
from chop.passes.base import PassResult, register_pass
from chop.toml import write_toml

VERSION = 1
NONE_IN_TOML = "<none>"
"""Stands for None, which TOML does not have."""


class _PathArgs:
    """Arguments with one field, given as a path or as a dict such as `{"save_dir": path}`."""

    @classmethod
    def from_pass_args(cls, pass_args: Any, where: str) -> Self:
        """Read a path, or a dict with the path."""
        (field,) = fields(cls)  # type: ignore[arg-type]
        if isinstance(pass_args, str | os.PathLike):
            return cls(Path(pass_args))  # type: ignore[call-arg]
        if isinstance(pass_args, Mapping) and field.name in pass_args:
            return read_options(cls, pass_args, where)
        raise ValueError(f"{where}: must be a path or {{'{field.name}': path}}, got {pass_args!r}")


@dataclass(frozen=True)
class SaveArgs(_PathArgs):
    """Where to save."""

    save_dir: Path
    """The folder to write to; for metadata, a folder, a .json or a .toml file."""


@dataclass(frozen=True)
class LoadArgs(_PathArgs):
    """Where to load from."""

    load_dir: Path
    """The folder to read from; for metadata, a folder, a .json or a .toml file."""


@register_pass("save_mase_graph", kind="interface", keeps_weights=True)
def save_mase_graph_interface_pass(graph: MaseGraph, args: SaveArgs) -> PassResult:
    """Write the graph, its weights, formats and metadata to a folder as JSON and safetensors, without pickle."""
    save_graph(graph, args.save_dir)
    return graph, {}


@register_pass("load_mase_graph", kind="interface")
def load_mase_graph_interface_pass(graph: MaseGraph | None, args: LoadArgs) -> PassResult:
    """Load a saved graph, bit for bit. If it has layers from outside torch.nn, give a `graph` of the same model."""
    return load_graph(args.load_dir, into=graph), {}


@register_pass("save_node_meta_param", kind="interface")
def save_node_meta_param_interface_pass(graph: MaseGraph, args: SaveArgs) -> PassResult:
    """Write the metadata of all nodes as JSON or TOML, with statistics and keys of users, without tensor values."""
    path = _file(args.save_dir)
    data = {"version": VERSION, "nodes": {meta.node.name: encode_meta(meta) for meta in graph.metas()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".toml":
        write_text(path, write_toml(_replace_values(data, None, NONE_IN_TOML)))
    else:
        write_json(path, data, indent=1)
    return graph, {}


@register_pass("load_node_meta_param", kind="interface")
def load_node_meta_param_interface_pass(graph: MaseGraph, args: LoadArgs) -> PassResult:
    """Load saved metadata into the nodes with the same names; values and formats of the graph are kept."""
    path = _file(args.load_dir)
    metas = _read(path, graph)
    for node, meta in metas.items():
        if "mase" in node.meta:
            present: NodeMeta = node.meta["mase"]
            meta.given = present.given
            for new, old in ((meta.args, present.args), (meta.results, present.results)):
                for name in new.keys() & old.keys():
                    new[name].value = old[name].value
        meta.note_formats()
        node.meta["mase"] = meta
    return graph, {}


def _read(path: Path, graph: MaseGraph) -> dict[fx.Node, NodeMeta]:
    names = [node.name for node in graph.fx_graph.nodes]
    try:
        if path.suffix == ".toml":
            file = _replace_values(read_versioned_json(path, VERSION, read_toml), NONE_IN_TOML, None)
        else:
            file = read_versioned_json(path, VERSION)
        saved = file["nodes"]
        if list(saved) != names:
            raise ValueError(f"it belongs to another graph: its nodes are {list(saved)}, this graph has {names}")
        return decode_metas(graph.fx_graph, saved)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(f"{path} is corrupt: {type(error).__name__}: {error}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"cannot load {path}: {error}") from error


def _replace_values(data: object, old: object, new: object) -> Any:
    """Return nested dicts and lists with every value `old` replaced."""
    if isinstance(data, dict):
        return {key: _replace_values(value, old, new) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_replace_values(value, old, new) for value in data]
    return new if data == old and type(data) is type(old) else data


def _file(path: Path) -> Path:
    """Return the path of the file, which may be given as its folder."""
    if path.suffix not in ("", ".json", ".toml"):
        raise ValueError(f"metadata is saved as JSON or TOML: give a folder, a .json or a .toml file, got {path}")
    return path if path.suffix else path / "node_meta_param.json"
