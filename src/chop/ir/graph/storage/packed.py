"""Graphs with packed weights in one file of safetensors: codes without gaps, scales, formats, and the graph.

`chop.exporting` writes these files. The first code is in the lowest bits of the first byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from chop.files import CorruptFileError, check_regular, parse_json
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.storage.save_load import decode_graph

VERSION = "1"
VERSION_KEY, GRAPH_KEY, TENSORS_KEY = "chop_export", "graph", "tensors"
"""Keys of the metadata in the header, whose values are text."""


def is_packed_graph(path: Path) -> bool:
    """Whether a file is a graph with packed weights, rather than plain weights or something else."""
    try:
        return path.is_file() and VERSION_KEY in _metadata(path)
    except ValueError:
        return False


def read_packed_graph(path: Path, into: MaseGraph | None = None) -> MaseGraph:
    """Return the graph in a file, with the same outputs, bit for bit; into a graph of the same model if given."""
    return decode_graph(path, partial(_read, path), into)


def _metadata(path: Path) -> dict[str, str]:
    check_regular(path)
    try:
        with safe_open(path, "np") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise CorruptFileError(f"{path} is corrupt: {error}") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    metadata = _metadata(path)
    if metadata.get(VERSION_KEY) != VERSION:
        raise ValueError(f"{path} has version {metadata.get(VERSION_KEY)}, but version {VERSION} is required")
    data = parse_json(metadata[GRAPH_KEY], str(path))
    entries = parse_json(metadata[TENSORS_KEY], str(path))
    tensors = safetensors.torch.load_file(path)
    weights = {name: _decode(name, entry, tensors) for name, entry in entries.items()}
    return data, {name: tensor for name, tensor in tensors.items() if name not in weights} | weights


def _decode(name: str, entry: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Tensor:
    """Return a parameter in float32, such that its format rounds it to the stored numbers."""
    if name in tensors:
        return tensors[name].float()
    width, blocks, padded = int(entry["width"]), tuple(entry["blocks"]), tuple(entry["padded"])
    packed, count = tensors[f"{name}.codes"].numpy(), math.prod(blocks)
    if not 1 <= width <= 32 or len(packed) != -(-count * width // 8) or math.prod(padded) != count:
        raise CorruptFileError(f"the codes of '{name}' do not have the size that the header states")
    codes = unpack(packed, width, count).reshape(blocks)
    if "elements" in entry:
        numbers = tensors[entry["elements"]].double().numpy()[codes]
    else:
        numbers = (codes - ((codes >> (width - 1)) << width) * bool(entry["signed"])).astype(np.float64)
    values = torch.from_numpy(numbers) * float(entry["unit"])
    if f"{name}.scale" in tensors:
        scale = tensors[f"{name}.scale"]
        scale = tensors[entry["scales"]][scale.long()] if "scales" in entry else scale
        values = values * (scale * torch.tensor(entry["tensor_scale"], dtype=torch.float32)).double()
    rounded = values.float().reshape(padded)[tuple(slice(n) for n in entry["shape"])].contiguous()
    if f"{name}.maxima" not in tensors:
        return rounded
    return with_maxima(rounded, padded, blocks, tensors[f"{name}.maxima"])


def pack(codes: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Return the lowest `width` bits of each code as bytes."""
    bits = (codes.reshape(-1, 1) >> np.arange(width)) & 1
    return np.packbits(bits.astype(np.uint8), bitorder="little")


def unpack(packed: NDArray[np.uint8], width: int, count: int) -> NDArray[np.int64]:
    """Return `count` codes from bytes; all are 0 or above."""
    bits = np.unpackbits(packed, count=count * width, bitorder="little").reshape(count, width)
    return bits.astype(np.int64) @ (np.int64(1) << np.arange(width))


def with_maxima(numbers: Tensor, padded: Sequence[int], blocks: Sequence[int], largest: Tensor) -> Tensor:
    """Return numbers in which a largest element of each block has its original magnitude, and none a larger one."""
    grouped = in_blocks(numbers, padded, blocks)
    dims = shared_dims(grouped, largest)
    kept = [d for d in range(grouped.dim()) if d not in dims]
    rows = grouped.permute(*kept, *dims).reshape(largest.numel(), -1)
    limit, at = largest.reshape(-1, 1), rows.abs().argmax(1, keepdim=True)
    rows = rows.clamp(-limit, limit).scatter(1, at, limit.copysign(rows.gather(1, at)))
    order = [*kept, *dims]
    restored = rows.reshape([grouped.shape[d] for d in order]).permute([order.index(d) for d in range(len(order))])
    return restored.reshape(tuple(padded))[tuple(slice(n) for n in numbers.shape)].contiguous()


def in_blocks(x: Tensor, padded: Sequence[int], blocks: Sequence[int]) -> Tensor:
    """Return a tensor in the shape of its blocks; zeros fill the last ones."""
    missing = [p for n, m in zip(reversed(x.shape), reversed(padded), strict=True) for p in (0, m - n)]
    return F.pad(x, missing).reshape(tuple(blocks))


def shared_dims(grouped: Tensor, scale: Tensor) -> list[int]:
    """Return the dimensions along which elements share a scale."""
    shape = [1] * (grouped.dim() - scale.dim()) + list(scale.shape)
    return [d for d, n in enumerate(shape) if n == 1]
