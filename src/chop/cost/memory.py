"""The elements and bits of the weights and inputs of a graph's nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import cast

from torch import fx

from chop.cost.conventions import Number
from chop.ir import NodeMeta, TensorMeta
from chop.ops import Role


@dataclass(frozen=True)
class Storage:
    """A number of elements, and the bits of all of them."""

    elements: int
    bits: Number

    @classmethod
    def of(cls, tensors: Iterable[TensorMeta]) -> Storage:
        """Return the storage of tensors in their formats."""
        found = list(tensors)
        return cls(
            sum(tensor.numel for tensor in found),
            sum(tensor.format.storage_bits(tensor.shape) for tensor in found),
        )

    @property
    def average(self) -> float:
        """Bits per element; 0 if there are no elements."""
        return self.bits / self.elements if self.elements else 0.0


def weight_storage(metas: Sequence[NodeMeta], *, quantized: bool = False) -> Storage:
    """Return the storage of the weights and biases of all nodes that can be quantised.

    With `quantized`, that of the weights of quantised nodes, without biases. A tensor that several nodes use
    counts once per format.
    """
    constant = constant_nodes(metas)
    distinct: dict[Hashable, TensorMeta] = {}
    for meta, name, role in _operands(metas, quantized):
        if _is_weight(meta, name, role, constant):
            tensor = meta.args[name]
            distinct.setdefault((_origin(meta, name), tensor.format), tensor)
    return Storage.of(distinct.values())


def input_storage(metas: Sequence[NodeMeta], *, quantized: bool = False) -> Storage:
    """Return the storage of the inputs of all nodes that can be quantised; with `quantized`, of those that are.

    A tensor counts for each node that reads it.
    A factor of a matrix product that depends on the model's inputs counts, although its role is `weight`.
    Operands that are never quantised, such as the indices of an embedding, do not count.
    """
    constant = constant_nodes(metas)
    return Storage.of(
        meta.args[name]
        for meta, name, role in _operands(metas, quantized)
        if not _is_weight(meta, name, role, constant)
    )


def average_bits(of_all: Storage, of_quantized: Storage) -> float:
    """Return the average bits of quantised nodes; if nothing is quantised, those of all nodes."""
    return of_quantized.average if of_quantized.elements else of_all.average


def _operands(metas: Sequence[NodeMeta], quantized: bool) -> Iterator[tuple[NodeMeta, str, Role]]:
    """Yield node, name and role of each operand that can be quantised.

    With `quantized`, only those of nodes of which an operand is quantised, without biases: a layer with few inputs
    and float biases would otherwise seem to have wide weights.
    """
    for meta in metas:
        if meta.op is not None:
            operands = ((name, meta.op.operand(name)) for name in meta.args)
            found = [(name, each.role) for name, each in operands if each is not None and each.role is not None]
            if not quantized:
                yield from ((meta, name, role) for name, role in found)
            elif any(meta.args[name].format.rounds for name, _ in found):
                yield from ((meta, name, role) for name, role in found if role != "bias")


def _is_weight(meta: NodeMeta, name: str, role: Role, constant: set[fx.Node]) -> bool:
    """Whether an operand is a weight or bias that depends on parameters only."""
    return role != "data_in" and (meta.args[name].is_parameter or _source(meta, name) in constant)


def is_constant(meta: NodeMeta, name: str) -> bool:
    """Whether an operand of a node depends on parameters and buffers only."""
    if meta.args[name].is_parameter:
        return True
    source = _source(meta, name) if meta.op is not None else None
    if source is None:
        return False
    seen, left = {source}, [source]
    while left:
        node = left.pop()
        if node.op == "placeholder":
            return False
        left += [before for before in node.all_input_nodes if before not in seen]
        seen.update(left)
    return True


def constant_nodes(metas: Sequence[NodeMeta]) -> set[fx.Node]:
    """Return the nodes that do not depend on an input of the model."""
    constant: set[fx.Node] = set()
    for meta in metas:
        if meta.node.op != "placeholder" and constant.issuperset(meta.node.all_input_nodes):
            constant.add(meta.node)
    return constant


def _source(meta: NodeMeta, name: str) -> fx.Node | None:
    """Return the node that computes an operand."""
    assert meta.op is not None, "only an op has operands"
    found = {bound: value for bound, _, value in meta.op.bound(meta.node.args, meta.node.kwargs)}
    value = found[name] if name in found else None
    return value if isinstance(value, fx.Node) else None


def _origin(meta: NodeMeta, name: str) -> Hashable:
    """Return a key that is equal for operands that are the same tensor, even if transposed or reshaped."""
    if meta.args[name].is_parameter:
        return id(attrgetter(name)(meta.module))
    source = _source(meta, name)
    assert source is not None, "a weight that is not a parameter of a layer comes from a node"
    source = moved_from(source)
    if source.op != "get_attr":
        return source
    return id(attribute_of(meta, source))


def attribute_of(meta: NodeMeta, node: fx.Node) -> object:
    """Return the parameter, buffer or other attribute that a `get_attr` node reads."""
    owner, _, attribute = str(node.target).rpartition(".")
    return getattr(meta.model.get_submodule(owner), attribute)


def moved_from(node: fx.Node) -> fx.Node:
    """Return the node that computes the elements of `node`, skipping nodes that only move them."""
    while (before := _moved_from(node)) is not None:
        node = before
    return node


def _moved_from(node: fx.Node) -> fx.Node | None:
    """Return the input of a node that moves all of its elements and does nothing else; otherwise None."""
    meta = cast(NodeMeta, node.meta["mase"])
    if meta.mase_type != "implicit_func" or len(node.all_input_nodes) != 1:
        return None
    if set(meta.args) != {"data_in_0"} or set(meta.results) != {"data_out_0"}:
        return None
    same = meta.args["data_in_0"].numel == meta.results["data_out_0"].numel
    return node.all_input_nodes[0] if same else None
