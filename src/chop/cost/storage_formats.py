"""The formats in which results are stored, and the metadata of nodes with other formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import fx

from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta, TensorMeta
from chop.ops import Operand
from chop.registry import closest

_FLOAT = Float()


def in_formats(meta: NodeMeta, formats: Mapping[str, Format]) -> NodeMeta:
    """Return a copy of a node's metadata with other formats for some of its operands and results."""
    known = (*meta.args, *meta.results)
    for name in formats:
        if name not in known:
            raise ValueError(f"node '{meta.node.name}' has no operand '{name}'; {closest(name, known)}")
    return replace(meta, args=_changed(meta.args, formats), results=_changed(meta.results, formats))


def as_stored(metas: Sequence[NodeMeta]) -> list[NodeMeta]:
    """Return the metadata of a graph's nodes, with each result in the format in which it is stored.

    This is the format that the result is rounded to; if it is not rounded, the widest format that a reader rounds
    it to, which is float for a reader that does not round. A node that only moves data, such as `view`, passes on
    what the readers of its result require.
    """
    required_by_readers: dict[fx.Node, Format] = {}
    stored: list[NodeMeta] = []
    for meta in reversed(metas):
        kept = required_by_readers[meta.node] if meta.node in required_by_readers else _FLOAT
        formats = {name: kept for name, tensor in meta.results.items() if tensor.format == _FLOAT}
        found = in_formats(meta, formats) if kept != _FLOAT else meta
        stored.append(found)
        for node, number_format in _required_formats(found).items():
            if node not in required_by_readers or required_by_readers[node].bits < number_format.bits:
                required_by_readers[node] = number_format
    return stored[::-1]


def tensor_bits(tensor: TensorMeta) -> int:
    """Return the bits of a tensor: by format for real numbers, by dtype for integers."""
    if tensor.dtype.is_floating_point:
        return tensor.format.storage_bits(tensor.shape)
    return tensor.numel * 8 * tensor.dtype.itemsize


def _changed(tensors: Mapping[str, TensorMeta], formats: Mapping[str, Format]) -> dict[str, TensorMeta]:
    return {
        name: replace(tensor, format=formats[name]) if name in formats else tensor
        for name, tensor in tensors.items()
    }


def _required_formats(meta: NodeMeta) -> dict[fx.Node, Format]:
    """Return the format that a node requires of each of its inputs."""
    bound = meta.op.bound(meta.node.args, meta.node.kwargs) if meta.op is not None else ()
    found: dict[fx.Node, Format] = {}
    for name, operand, value in bound:
        if isinstance(value, fx.Node) and (required := _required_format(meta, name, operand)) is not None:
            found[value] = max(found.get(value, required), required, key=lambda each: each.bits)
    others = [node for node in meta.node.all_input_nodes if node not in found and not _reads_shape_only(meta)]
    return found | dict.fromkeys(others, _FLOAT)


def _required_format(meta: NodeMeta, name: str, operand: Operand) -> Format | None:
    if operand.role is None and meta.op is not None and not meta.op.passes_on:
        return _FLOAT
    if operand.role is None:
        result = next(iter(meta.results.values()), None)
        return None if result is None else result.format
    return meta.args[name].format if name in meta.args else _FLOAT


def _reads_shape_only(meta: NodeMeta) -> bool:
    """Whether a node only reads the shape of its input, such as `x.size(0)`."""
    return meta.op is not None and not meta.results
