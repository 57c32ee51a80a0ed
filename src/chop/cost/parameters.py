"""The parameters of nodes and their bits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import fx, nn

from chop.cost.memory import Storage, attribute_of, moved_from
from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta

_FLOAT = Float()


class HeldParameter(NamedTuple):
    """A parameter that a node reads, with the format it is read in."""

    identity: int
    """The same for all nodes that share the parameter."""
    shape: tuple[int, ...]
    format: Format

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def parameters(meta: NodeMeta) -> int:
    """Return the number of elements of all parameters that a node reads: of its layer, or of the model."""
    return read_storage(meta).elements


def weight_bits(meta: NodeMeta) -> int:
    """Return the bits of all parameters that a node reads, in the formats it reads them in."""
    return _bits(set(held_parameters(meta)))


def read_storage(meta: NodeMeta) -> Storage:
    """Return the storage of all parameters that a node reads, in the formats it reads them in."""
    return _storage(set(held_parameters(meta)))


def layer_bits(meta: NodeMeta) -> int:
    """Return the bits of the parameters of a node's layer."""
    return _bits(set(_of_layer(meta)))


def parameter_storage(metas: Sequence[NodeMeta]) -> Storage:
    """Return the storage of the distinct parameters of all nodes, once for each format they are read in."""
    return _storage({each for meta in metas for each in held_parameters(meta)})


def held_parameters(meta: NodeMeta) -> Iterator[HeldParameter]:
    """Yield every parameter that a node reads; its format is `float` if it is not quantised."""
    yield from _of_layer(meta)
    for node, number_format in _sources(meta):
        source = moved_from(node)
        if source.op == "get_attr" and isinstance(parameter := attribute_of(meta, source), nn.Parameter):
            yield HeldParameter(id(parameter), tuple(parameter.shape), number_format)


def _of_layer(meta: NodeMeta) -> Iterator[HeldParameter]:
    module = meta.module
    for name, parameter in () if module is None else module.named_parameters():
        known = meta.args.get(name)
        number_format = known.format if known is not None and known.is_parameter else _FLOAT
        yield HeldParameter(id(parameter), tuple(parameter.shape), number_format)


def _sources(meta: NodeMeta) -> Iterator[tuple[fx.Node, Format]]:
    """Yield the inputs of a node with the format they are read in; none for a node that only moves data."""
    if meta.mase_type == "implicit_func":
        return
    formats = {name: tensor.format for name, tensor in meta.args.items()}
    bound = meta.op.bound(meta.node.args, meta.node.kwargs) if meta.op is not None else ()
    read = {value: formats.get(name, _FLOAT) for name, _, value in bound if isinstance(value, fx.Node)}
    for node in meta.node.all_input_nodes:
        yield node, read[node] if node in read else _FLOAT


def _storage(found: set[HeldParameter]) -> Storage:
    return Storage(sum({each.identity: each.elements for each in found}.values()), _bits(found))


def _bits(found: set[HeldParameter]) -> int:
    return sum(each.format.storage_bits(each.shape) for each in found)
