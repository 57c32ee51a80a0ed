"""The memory of activations: of each node, and the peak over a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import fx
from torch.utils import _pytree as pytree

from chop.cost.conventions import Number, exact_int
from chop.cost.memory import constant_nodes
from chop.cost.storage_formats import as_stored, tensor_bits
from chop.ir import NodeMeta
from chop.ir.graph.in_place import writes_in_place

_VIEWS = frozenset(
    (
        *("slice", "alias", "movedim", "swapaxes", "ravel", "broadcast_to", "diagonal", "tensor_split"),
        *("split_with_sizes", "as_strided"),
        *("view", "reshape", "flatten", "unflatten", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand"),
        *("expand_as", "view_as", "reshape_as", "narrow", "select", "chunk", "split", "unbind", "detach"),
        *("identity", "getitem", "getattr", "dropout", "outputs"),
    )
)
_CASTS = frozenset(("to", "float", "double", "half", "bfloat16", "type", "type_as"))


@dataclass(frozen=True)
class Activations:
    """The bits of the activations of one run."""

    by_node: dict[str, Number]
    """Bits of the results of each node: 0 for views, in-place ops, and nodes that do not depend on an input."""
    peak: Number
    """The largest number of bits in use at one time."""
    peak_node: str | None
    """The first node at which the peak is reached; None in a graph without activations."""

    @property
    def total(self) -> Number:
        """The sum over all nodes."""
        return exact_int(sum(self.by_node.values()))


def activations(metas: Sequence[NodeMeta]) -> Activations:
    """Return the memory of the activations of a graph, including inputs and outputs.

    Nodes run in the order of the graph. A tensor is in memory from the node that computes it to its last reader,
    inclusive; an output, until the end. Views and in-place ops share the memory of their input: `reshape` and
    `flatten` count as views; `contiguous`, `clone`, `repeat`, `cat`, `stack`, indexing with tensors or lists, and
    casts to another dtype count as copies.
    """
    return stored_activations(as_stored(metas))


def stored_activations(kept: Sequence[NodeMeta]) -> Activations:
    """Return the memory of the activations of a graph whose results are in the formats in which they are stored."""
    owners = _owners(kept)
    sizes, ends = _sizes_and_ends(kept, owners)
    present: Number = 0
    peak: Number = 0
    peak_node = None
    ending: dict[int, list[Number]] = {}
    for step, meta in enumerate(kept):
        if meta.node in sizes:
            present += sizes[meta.node]
            ending.setdefault(ends[meta.node], []).append(sizes[meta.node])
        if present > peak:
            peak, peak_node = present, meta.node.name
        present -= sum(ending.pop(step, []))
    by_node = {meta.node.name: sizes.get(meta.node, 0) for meta in kept}
    return Activations(by_node, exact_int(peak), peak_node)


def _sizes_and_ends(
    metas: Sequence[NodeMeta], owners: dict[fx.Node, fx.Node]
) -> tuple[dict[fx.Node, Number], dict[fx.Node, int]]:
    """Return the bits of each memory block, by the node that allocates it, and the step of its last reader."""
    sizes: dict[fx.Node, Number] = {}
    ends: dict[fx.Node, int] = {}
    constant = constant_nodes(metas)
    for step, meta in enumerate(metas):
        owner = owners[meta.node]
        if meta.node.op != "output" and owner not in constant and not is_view(meta):
            size = sum(tensor_bits(tensor) for tensor in meta.results.values())
            sizes[owner] = max(sizes.get(owner, 0), size)
        for node in (meta.node, *_read(meta)):
            ends[owners[node]] = step
    return sizes, ends


def _owners(metas: Sequence[NodeMeta]) -> dict[fx.Node, fx.Node]:
    """Return for each node the node that allocated the memory of its result."""
    owners: dict[fx.Node, fx.Node] = {}
    for meta in metas:
        source = _shares_with(meta)
        owners[meta.node] = meta.node if source is None else owners[source]
    return owners


def _shares_with(meta: NodeMeta) -> fx.Node | None:
    """Return the input whose memory the result of a node shares."""
    if meta.op is None or not meta.results:
        return None
    if not is_view(meta) and not writes_in_place(meta.node, meta.module):
        return None
    first = meta.node.args[0] if meta.node.args else next(iter(meta.node.kwargs.values()), None)
    return first if isinstance(first, fx.Node) else None


def is_view(meta: NodeMeta) -> bool:
    """Whether the result of a node is a view of its input."""
    if meta.op is None:
        return False
    if meta.op.name in _CASTS:
        tensors = [*meta.args.values(), *meta.results.values()]
        return len({tensor.dtype for tensor in tensors}) <= 1
    if meta.op.name == "getitem":
        index = pytree.tree_leaves(meta.node.args[1:], is_leaf=lambda item: isinstance(item, list))
        return not any(isinstance(item, list) or _makes_tensors(item) for item in index)
    return meta.op.name in _VIEWS


def _makes_tensors(item: object) -> bool:
    """Whether a node returns tensors, as opposed to a number such as `x.size(0)`."""
    return isinstance(item, fx.Node) and bool(item.meta["mase"].results)


def _read(meta: NodeMeta) -> Iterator[fx.Node]:
    """Yield the nodes whose values a node reads; reading a shape needs none."""
    if meta.op is None or meta.results:
        yield from meta.node.all_input_nodes
