"""The complete cost estimate of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chop.cost.conventions import Number, exact_int
from chop.cost.energy import Energy, energy_of
from chop.cost.memory import average_bits, input_storage, weight_storage
from chop.cost.operations import bitops_in, is_floating_point, operations_in, work
from chop.cost.parameters import parameter_storage, read_storage
from chop.cost.peak_activations import Activations, stored_activations
from chop.cost.roofline import Bound, Device, estimate_time, moved_bits, operations_per_byte
from chop.cost.storage_formats import as_stored
from chop.ir import NodeMeta
from chop.ir.graph.meta import annotated_batch_size


@dataclass(frozen=True)
class NodeCost:
    """The cost of one node; None where its operations are unknown, or no device is given."""

    op: str
    macs: int | None
    flops: int | None
    """Floating-point operations; a MAC is two."""
    operations: int | None
    """Operations in any format; a MAC is two."""
    bitops: Number | None
    parameters: int
    weight_bits: Number
    activation_bits: Number
    """Bits of the activations that the node produces."""
    moved_bits: Number
    """Bits that the node reads and writes."""
    intensity: float | None
    """Operations per byte moved."""
    energy_pj: float | None
    time_s: float | None
    bound: Bound | None


@dataclass(frozen=True)
class TotalCost:
    """The cost of a graph; operations, bits moved, energy and time exclude nodes whose operations are unknown."""

    macs: int
    flops: int
    operations: int
    bitops: Number
    parameters: int
    """Distinct parameters, as for `weight_bits`."""
    weight_bits: Number
    activation_bits: Number
    moved_bits: Number
    intensity: float | None
    energy_pj: float
    time_s: float | None
    peak_activation_bits: Number
    peak_node: str | None
    average_weight_bits: float
    """Bits per element of weights and biases that can be quantised."""
    average_activation_bits: float
    """Bits per element of inputs of nodes that can be quantised."""
    quantized_weight_bits: float
    """Bits per element of weights of quantised nodes, without biases; if there are none, `average_weight_bits`."""
    quantized_activation_bits: float
    """Bits per element of inputs of quantised nodes; if there are none, `average_activation_bits`."""


@dataclass(frozen=True)
class Estimate:
    """The cost of each node, and of the graph."""

    by_node: dict[str, NodeCost]
    total: TotalCost
    unknown: tuple[str, ...]
    """The nodes whose operations are unknown."""


def estimate(
    metas: Sequence[NodeMeta],
    convention: str = "bops",
    device: Device | None = None,
    table: Energy | None = None,
) -> Estimate:
    """Return the cost of each node and of the graph; with a device, also the time.

    Results are assumed to be stored in the formats in which they are read (`as_stored`).
    """
    picojoules, kept = table or Energy(), as_stored(metas)
    live = stored_activations(kept)
    found = {
        meta.node.name: _node_cost(meta, live.by_node[meta.node.name], convention, device, picojoules)
        for meta in kept
    }
    unknown = tuple(name for name, cost in found.items() if cost.operations is None)
    return Estimate(found, _total(metas, list(found.values()), live, device), unknown)


def _node_cost(
    meta: NodeMeta, activation_bits: Number, convention: str, device: Device | None, table: Energy
) -> NodeCost:
    time = None if device is None else estimate_time(meta, device)
    found, read, moved = work(meta), read_storage(meta), moved_bits(meta)
    count = None if found is None else found.count
    counted = operations_in(count, "flops")
    return NodeCost(
        op=meta.mase_op,
        macs=operations_in(count, "macs"),
        flops=counted if counted is None or is_floating_point(meta) else 0,
        operations=counted,
        bitops=bitops_in(found, convention),
        parameters=read.elements,
        weight_bits=read.bits,
        activation_bits=activation_bits,
        moved_bits=moved,
        intensity=operations_per_byte(counted, moved),
        energy_pj=energy_of(meta, found, table, moved, read.bits),
        time_s=None if time is None else time.seconds,
        bound=None if time is None else time.bound,
    )


def _total(
    metas: Sequence[NodeMeta], costs: Sequence[NodeCost], live: Activations, device: Device | None
) -> TotalCost:
    known = [cost for cost in costs if cost.operations is not None]
    counted, moved = sum(cost.operations or 0 for cost in known), sum(cost.moved_bits for cost in known)
    stored, weights, inputs = parameter_storage(metas), weight_storage(metas), input_storage(metas)
    return TotalCost(
        macs=sum(cost.macs or 0 for cost in known),
        flops=sum(cost.flops or 0 for cost in known),
        operations=counted,
        bitops=exact_int(sum(cost.bitops or 0 for cost in known)),
        parameters=stored.elements,
        weight_bits=stored.bits,
        activation_bits=live.total,
        moved_bits=exact_int(moved),
        intensity=8 * counted / moved if moved else None,
        energy_pj=sum(cost.energy_pj or 0.0 for cost in known),
        time_s=None if device is None else sum(cost.time_s or 0.0 for cost in known),
        peak_activation_bits=live.peak,
        peak_node=live.peak_node,
        average_weight_bits=weights.average,
        average_activation_bits=inputs.average,
        quantized_weight_bits=average_bits(weights, weight_storage(metas, quantized=True)),
        quantized_activation_bits=average_bits(inputs, input_storage(metas, quantized=True)),
    )


COST_CONVENTION = "bops"
"""How bit widths count in the cost that every summary has: `chop.cost.conventions`."""


def summarize_cost(models: Mapping[str, Sequence[NodeMeta]]) -> dict[str, Any] | None:
    """Return the cost of the annotated batch, by the names of `models`; None if a node has no shapes.

    The names are `before` and `after`; `unknown` are the nodes of the last model that are not counted.
    """
    if not all(meta.annotated for metas in models.values() for meta in metas):
        return None
    costs = {name: estimate(metas, COST_CONVENTION) for name, metas in models.items()}
    totals = {name: asdict(cost.total) for name, cost in costs.items()}
    return {
        "samples": annotated_batch_size(next(iter(models.values()))),
        "convention": COST_CONVENTION,
        "unknown": list(list(costs.values())[-1].unknown),
        **{name: {key: value for key, value in each.items() if value is not None} for name, each in totals.items()},
    }
