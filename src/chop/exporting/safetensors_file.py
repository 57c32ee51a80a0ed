"""The target `safetensors`: packed codes, scales and formats, from which the graph is restored bit for bit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from chop.exporting.bit_packing import pack, unpack
from chop.exporting.block_maxima import needed_maxima, with_maxima
from chop.exporting.errors import refuse_format
from chop.exporting.parameters import QuantizedParameter, quantized_parameters
from chop.exporting.stored_tensor import StoredTensor, store
from chop.files import CorruptFileError, check_regular, parse_json
from chop.formats import Format
from chop.formats.bfloat16 import BFloat16
from chop.formats.elements import ELEMENTS
from chop.formats.float16 import Float16
from chop.formats.microscaling import Microscaled
from chop.ir import MaseGraph
from chop.ir.graph.storage import decode_graph, encode_graph, without_shared_memory
from chop.ir.graph.storage.values import encode_format

TARGET = "safetensors"
VERSION = "1"
VERSION_KEY, GRAPH_KEY, TENSORS_KEY = "chop_export", "graph", "tensors"
"""Keys of the metadata in the header, whose values are text."""
NATIVE: Mapping[type[Format], torch.dtype] = {Float16: torch.float16, BFloat16: torch.bfloat16}
"""Formats that safetensors has itself."""


def write_safetensors(graph: MaseGraph, path: Path) -> None:
    """Write a graph to one file: packed codes of quantised parameters, other tensors as they are, and the graph."""
    data, stored = encode_graph(graph)
    packed = {stored.path_of(use.tensor): use for use in quantized_parameters(graph).values()}
    tensors: dict[str, Tensor] = {}
    entries: dict[str, dict[str, Any]] = {}
    for name, tensor in stored.tensors.items():
        number_format = packed[name].format if name in packed else None
        if isinstance(number_format, Float16 | BFloat16) and number_format.is_repeatable:
            tensors[name] = number_format.quantize(tensor).to(NATIVE[type(number_format)])
            entries[name] = {"format": encode_format(number_format)}
        elif number_format is not None and tensor.numel() and tensor.dtype is torch.float32:
            entries[name], parts = _encode(name, packed[name])
            tensors |= parts
        else:
            tensors[name] = tensor
    metadata = {VERSION_KEY: VERSION, TENSORS_KEY: json.dumps(entries), GRAPH_KEY: json.dumps(data)}
    path.write_bytes(safetensors.torch.save(without_shared_memory(tensors), metadata))


def _encode(name: str, use: QuantizedParameter) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the entry of a parameter in the header, and its tensors in the file."""
    try:
        stored = store(use.format, use.tensor, use.scale)
        largest = needed_maxima(stored, use.tensor.detach()) if use.scale is None else None
    except ValueError as error:
        raise refuse_format(use.node, use.operand, use.format, TARGET, str(error)) from error
    entry: dict[str, Any] = {
        "format": encode_format(use.format),
        "width": use.format.width,
        "signed": stored.kind == "signed",
        "unit": stored.unit,
        "tensor_scale": 1.0 if stored.tensor_scale is None else stored.tensor_scale,
        "blocks": list(stored.codes.shape),
        "padded": list(stored.padded),
        "shape": list(stored.shape),
    }
    parts = {f"{name}.codes": torch.from_numpy(pack(stored.codes.numpy(), use.format.width))}
    if stored.kind == "table":
        entry["elements"] = f"elements.{use.format}"
        parts[entry["elements"]] = stored.table
    if stored.scale is not None:
        parts[f"{name}.scale"], table = _encode_scale(stored, stored.scale)
        if table is not None:
            entry["scales"], parts["scales." + table[0]] = f"scales.{table[0]}", table[1]
    if largest is not None:
        parts[f"{name}.maxima"] = largest
    return entry, parts


def _encode_scale(stored: StoredTensor, scale: Tensor) -> tuple[Tensor, tuple[str, Tensor] | None]:
    """Return scales as codes of 8 bits with the name and the numbers of their table; or as they are, in float32."""
    if isinstance(stored.format, Microscaled):
        exponents = scale.double().frexp().exponent + 126
        return exponents.to(torch.uint8), ("e8m0", torch.ldexp(torch.ones(256), torch.arange(-127, 129)))
    if stored.tensor_scale is not None:
        grid = ELEMENTS["e4m3"]
        return grid.encode(scale).to(torch.uint8), ("e4m3", grid.decode(torch.arange(256)))
    return scale, None


def is_exported_graph(path: Path) -> bool:
    """Whether a file is a graph that `write_safetensors` wrote, rather than plain weights or something else."""
    try:
        return path.is_file() and VERSION_KEY in _metadata(path)
    except ValueError:
        return False


def read_safetensors(path: Path, into: MaseGraph | None = None) -> MaseGraph:
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
