"""Nodes as if their operands were in other formats, and results in the formats that they are kept in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import fx

from chop.cost.conventions import Number, bits_of, whole
from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta, TensorMeta
from chop.ops import Operand
from chop.registry import closest


def in_formats(meta: NodeMeta, formats: Mapping[str, Format]) -> NodeMeta:
    """What is known of a node, with other formats for some of its operands and results; `meta` stays as it is."""
    known = (*meta.args, *meta.results)
    for name in formats:
        if name not in known:
            raise ValueError(f"node '{meta.node.name}' has no operand '{name}', {closest(name, known)}")
    return replace(meta, args=_changed(meta.args, formats), results=_changed(meta.results, formats))


def as_stored(metas: Sequence[NodeMeta]) -> list[NodeMeta]:
    """The nodes of a graph, with the result of each in the format that it is kept in until it is read.

    That is the format it is rounded to; else the widest of those that its readers round it to, where a reader
    that does not round wants a float. What only moves data wants what is wanted of its own result.
    """
    wanted: dict[fx.Node, Format] = {}
    stored: list[NodeMeta] = []
    for meta in reversed(metas):
        kept = wanted[meta.node] if meta.node in wanted else Float()
        formats = {name: kept for name, tensor in meta.results.items() if tensor.format == Float()}
        found = in_formats(meta, formats) if kept != Float() else meta
        stored.append(found)
        for node, number_format in _wants(found).items():
            if node not in wanted or wanted[node].bits < number_format.bits:
                wanted[node] = number_format
    return stored[::-1]


def tensor_bits(tensor: TensorMeta) -> Number:
    """Bits of all elements: of the format for real numbers, of the dtype for integers."""
    each = bits_of(tensor.format) if tensor.dtype.is_floating_point else 8 * tensor.dtype.itemsize
    return whole(tensor.numel * each)


def _changed(tensors: Mapping[str, TensorMeta], formats: Mapping[str, Format]) -> dict[str, TensorMeta]:
    return {
        name: replace(tensor, format=formats[name]) if name in formats else tensor
        for name, tensor in tensors.items()
    }


def _wants(meta: NodeMeta) -> dict[fx.Node, Format]:
    """The format in which a node wants each of its inputs."""
    bound = meta.op.bound(meta.node.args, meta.node.kwargs) if meta.op is not None else ()
    found: dict[fx.Node, Format] = {}
    for name, operand, value in bound:
        if isinstance(value, fx.Node) and (wish := _wish(meta, name, operand)) is not None:
            found[value] = max(found.get(value, wish), wish, key=lambda each: each.bits)
    others = [node for node in meta.node.all_input_nodes if node not in found and not _looks_at_shape(meta)]
    return found | dict.fromkeys(others, Float())


def _wish(meta: NodeMeta, name: str, operand: Operand) -> Format | None:
    if operand.role is None:
        result = next(iter(meta.results.values()), None)
        return None if result is None else result.format
    return meta.args[name].format if name in meta.args else Float()


def _looks_at_shape(meta: NodeMeta) -> bool:
    """Whether a node makes no tensor from its inputs, such as `x.size(0)`."""
    return meta.op is not None and not meta.results
