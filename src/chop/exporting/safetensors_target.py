"""The target `safetensors`: written, read back, and run in PyTorch."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, fx

from chop import __version__
from chop.config import ExportOptions
from chop.exporting.export import TARGETS, CannotExportError
from chop.exporting.parameters import QuantizedParameter, quantized_parameters
from chop.exporting.proof import Batch, Engine, outputs_of
from chop.exporting.stored_tensor import StoredTensor, store
from chop.files import CorruptFileError
from chop.formats import Format
from chop.formats.float import BFloat16, Float16
from chop.formats.microscaling import Microscaled
from chop.formats.parts.bits import finite_magnitude
from chop.formats.parts.grid import ELEMENTS
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import NodeInterpreter, bind_inputs, evaluation_mode
from chop.ir.graph.storage import encode_graph, read_packed_graph, without_shared_memory
from chop.ir.graph.storage.packed import (
    GRAPH_KEY,
    TENSORS_KEY,
    VERSION,
    VERSION_KEY,
    in_blocks,
    pack,
    shared_dims,
    with_maxima,
)
from chop.ir.graph.storage.values import encode_format

TARGET = "safetensors"
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
        largest = _needed_maxima(stored, use.tensor.detach()) if use.scale is None else None
    except ValueError as error:
        raise CannotExportError(use.node, TARGET, f"{use.operand} has the format {use.format}, {error}") from error
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


def _needed_maxima(stored: StoredTensor, value: Tensor) -> Tensor | None:
    """Return the largest magnitude per scale of `value`, if rounding the stored numbers again changes them.

    The scale of the stored numbers may differ in its last bit: 127 times a scale, divided by 127, is not always
    the scale. With their original maxima in place, the same scales follow.
    """
    numbers = stored.numbers()
    if torch.equal(stored.format.quantize(numbers), numbers):
        return None
    assert stored.scale is not None, "a format without scales does not change numbers that it has rounded"
    covered = value.clamp(min=0) if stored.kind == "unsigned" else value
    grouped = in_blocks(finite_magnitude(covered), stored.padded, stored.codes.shape)
    largest = grouped.amax(shared_dims(grouped, stored.scale), keepdim=True).reshape(stored.scale.shape)
    if not torch.equal(
        stored.format.quantize(with_maxima(numbers, stored.padded, stored.codes.shape, largest)), numbers
    ):
        raise ValueError("whose numbers change when they are rounded again")
    return largest


class SafetensorsTarget:
    """Packed integers and scales; `ch test --load` reads the file."""

    suffix = ".safetensors"

    def write(self, graph: MaseGraph, path: Path, batch: Batch, options: ExportOptions) -> Engine:
        """Write the file, and return the graph that is read back from it."""
        if options.opset is not None:
            raise ValueError("a safetensors file has no opset")
        write_safetensors(graph, path)
        try:
            return ReadBack(read_packed_graph(path))
        except CorruptFileError:
            raise
        except ValueError:  # for example a layer that only the code of the model can build
            return ReadBack(read_packed_graph(path, into=copy.deepcopy(graph)))


class ReadBack(Engine):
    """A graph that was read from a file."""

    title = f"read back by chop {__version__}"
    is_exact = True

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph

    def run(self, inputs: Batch) -> list[Tensor]:
        return outputs_of(self.graph, inputs)

    def run_layers(self, inputs: Batch, results: Mapping[str, Tensor]) -> dict[str, Tensor]:
        runner = _FromResults(self.graph.model, results)
        with evaluation_mode(self.graph.model):
            runner.run(*bind_inputs(self.graph, inputs))
        return runner.found


class _FromResults(NodeInterpreter):
    """An interpreter that continues with given results instead of its own."""

    def __init__(self, model: fx.GraphModule, given: Mapping[str, Tensor]) -> None:
        super().__init__(model)
        self.given = given
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.name not in self.given:
            return result
        self.found[n.name] = result.clone()
        return self.given[n.name].clone()


TARGETS.add(TARGET, SafetensorsTarget())
