"""Statistics as the bytes of a safetensors file, whose header says what they are. Nothing is pickled."""

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

from chop.statistics.base import Statistic, make_statistic

VERSION = 1
_HEADER = "chop_profile"
_KINDS = ("weights", "args", "results")
_DAMAGE = (KeyError, IndexError, TypeError, AttributeError, RuntimeError, OverflowError)
"""What reading raises where a file holds nonsense."""

Place = tuple[str, Any, str]


def pack(num_samples: int, collections: Mapping[Any, Mapping[str, Statistic]]) -> bytes:
    """All collections by place; one that several places share is written once."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[int, int] = {}
    kept: list[dict[str, Any]] = []
    for collection in collections.values():
        if id(collection) not in numbers:
            numbers[id(collection)] = len(kept)
            kept.append({name: _pack(s, f"{len(kept)}/{name}/", tensors) for name, s in collection.items()})
    places = [[*place, numbers[id(collection)]] for place, collection in collections.items()]
    header = {"version": VERSION, "num_samples": num_samples, "places": places, "collections": kept}
    return safetensors.torch.save(tensors, {_HEADER: json.dumps(header)})


def _pack(statistic: Statistic, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    header, state = statistic.save()
    for name, tensor in state.items():
        tensors[prefix + name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
    return {"statistic": statistic.name, "options": statistic.options(), "header": header}


def unpack(path: Path) -> tuple[int, list[tuple[Place, dict[str, Statistic]]]]:
    """The number of samples, and the collections by place; one sentence says what is wrong with a file."""
    try:
        header, tensors = _read(path)
        collections = [
            {name: _unpack(record, tensors[str(i), name]) for name, record in kept.items()}
            for i, kept in enumerate(header["collections"])
        ]
        places = [(_place(record), collections[_natural(record[3])]) for record in header["places"]]
        return _natural(header["num_samples"]), places
    except _DAMAGE as error:
        raise ValueError(f"profile {path} is damaged: {type(error).__name__}: {error}") from error
    except (ValueError, LookupError) as error:
        raise ValueError(f"cannot load profile {path}: {error}") from error


def _read(path: Path) -> tuple[dict[str, Any], Mapping[tuple[str, str], dict[str, Tensor]]]:
    """The header, and the tensors of each statistic by the number of its collection and its name there."""
    if not path.is_file():
        raise ValueError("there is no such file")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_HEADER)
            if text is None:
                raise ValueError("it holds no profile")
            header = json.loads(text)
            tensors: defaultdict[tuple[str, str], dict[str, Tensor]] = defaultdict(dict)
            for key in file.keys():  # noqa: SIM118 - it is no dict
                number, _, rest = key.partition("/")
                name, _, part = rest.rpartition("/")
                tensors[number, name][part] = file.get_tensor(key)
    except SafetensorError as error:
        raise ValueError(f"it is damaged: {error}") from None
    if header["version"] != VERSION:
        raise ValueError(f"it has version {header['version']}, this is version {VERSION}")
    return header, tensors


def _unpack(record: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Statistic:
    statistic = make_statistic(record["statistic"], record["options"], "the statistic")
    statistic.load(record["header"], tensors)
    return statistic


def _place(record: Any) -> Place:
    node, kind, entry, _ = record
    if not (isinstance(node, str) and isinstance(entry, str) and kind in _KINDS):
        raise ValueError(f"{record!r} is no place of a tensor")
    return node, kind, entry


def _natural(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number!r} is no number of something")
    return number
