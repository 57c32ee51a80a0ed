"""The safetensors file of a profile: tensors of statistics, and a JSON header that describes them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from chop.files import CorruptFileError
from chop.statistics.base import Statistic, make_statistic

VERSION = 1
_HEADER = "chop_profile"
_KINDS = ("weights", "args", "results")
_CORRUPTION = (KeyError, IndexError, TypeError, AttributeError, RuntimeError, OverflowError)
"""Errors that reading raises if the content of a file is not what it should be."""

Key = tuple[str, Any, str]
"""The fields of a `TensorKey`."""


def pack(
    num_samples: int, collections: Mapping[Any, Mapping[str, Statistic]], nodes: Mapping[str, tuple[str, str]]
) -> bytes:
    """Return the content of a file; a collection that several tensors share is written once.

    `nodes` are the fingerprints of the nodes.
    """
    tensors: dict[str, Tensor] = {}
    numbers: dict[int, int] = {}
    kept: list[dict[str, Any]] = []
    for collection in collections.values():
        if id(collection) not in numbers:
            numbers[id(collection)] = len(kept)
            kept.append({name: _pack(s, f"{len(kept)}/{name}/", tensors) for name, s in collection.items()})
    keys = [[*key, numbers[id(collection)]] for key, collection in collections.items()]
    header = {"version": VERSION, "num_samples": num_samples, "places": keys, "collections": kept}
    header["nodes"] = {name: list(each) for name, each in nodes.items()}
    return safetensors.torch.save(tensors, {_HEADER: json.dumps(header)})


def _pack(statistic: Statistic, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    header, state = statistic.save()
    for name, tensor in state.items():
        tensors[prefix + name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
    return {"statistic": statistic.name, "options": statistic.options(), "header": header}


def unpack(path: Path) -> tuple[int, list[tuple[Key, dict[str, Statistic]]], dict[str, tuple[str, str]]]:
    """Return the number of samples, the collections with their keys, and the fingerprints of the nodes.

    Raise ValueError if the file is corrupt.
    """
    try:
        header, tensors = _read(path)
        collections = [
            {name: _unpack(entry, tensors[str(i), name]) for name, entry in kept.items()}
            for i, kept in enumerate(header["collections"])
        ]
        keyed = [(_key(entry), collections[_count(entry[3])]) for entry in header["places"]]
        nodes = {str(name): _pair(each) for name, each in header.get("nodes", {}).items()}
        return _count(header["num_samples"]), keyed, nodes
    except _CORRUPTION as error:
        raise CorruptFileError(f"profile {path} is corrupt: {type(error).__name__}: {error}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"cannot load profile {path}: {error}") from error


def _read(path: Path) -> tuple[dict[str, Any], Mapping[tuple[str, str], dict[str, Tensor]]]:
    """Return the header, and the tensors of each statistic by the number of its collection and its name."""
    if not path.is_file():
        raise ValueError("the file does not exist")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_HEADER)
            if text is None:
                raise ValueError("it is not a profile")
            header = json.loads(text)
            tensors: defaultdict[tuple[str, str], dict[str, Tensor]] = defaultdict(dict)
            for key in file.keys():  # noqa: SIM118 - not a dict
                number, _, rest = key.partition("/")
                name, _, part = rest.rpartition("/")
                tensors[number, name][part] = file.get_tensor(key)
    except SafetensorError as error:
        raise ValueError(f"it is corrupt: {error}") from None
    if header["version"] != VERSION:
        raise ValueError(f"it has version {header['version']}, but version {VERSION} is required")
    return header, tensors


def _unpack(entry: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Statistic:
    statistic = make_statistic(entry["statistic"], entry["options"], "the statistic")
    statistic.load(entry["header"], tensors)
    return statistic


def _key(value: Any) -> Key:
    node, kind, entry, _ = value
    if not (isinstance(node, str) and isinstance(entry, str) and kind in _KINDS):
        raise ValueError(f"{value!r} does not identify a tensor")
    return node, kind, entry


def _pair(value: Any) -> tuple[str, str]:
    kind, weights = value
    return str(kind), str(weights)


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value
