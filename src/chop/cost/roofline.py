"""The roofline model: time is the larger of computing and moving data (Williams et al., CACM 52(4), 2009)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from chop.cost.conventions import Number, exact_int
from chop.cost.operations import operations, work
from chop.cost.parameters import layer_bits
from chop.cost.peak_activations import is_view
from chop.cost.storage_formats import tensor_bits
from chop.ir import NodeMeta
from chop.ir.graph.meta import GRAPH_KINDS

Bound = Literal["compute", "memory"]


@dataclass(frozen=True)
class Device:
    """Peak performance and bandwidth of a device: a `[device]` table."""

    name: str
    peak: Mapping[int | str, float]
    """Operations per second by operand width in bits, where a MAC is two: `{8 = 4e12, 32 = 1e12}`."""
    bandwidth: float
    """Bytes per second from and to memory."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "peak", by_width(self.peak, "peak"))
        if not (self.bandwidth > 0 and math.isfinite(self.bandwidth)):
            raise ValueError(f"bandwidth must be a positive number of bytes per second, got {self.bandwidth}")

    def operations_per_second(self, width: int) -> float:
        """Return the peak for operands of `width` bits: that of the smallest listed width that is large enough."""
        fitting = [int(listed) for listed in self.peak if int(listed) >= width]
        if not fitting:
            widest = max(int(listed) for listed in self.peak)
            raise ValueError(
                f"device '{self.name}' lists peaks up to {widest} bits only, but operands have {width} bits"
            )
        return self.peak[min(fitting)]


class Time(NamedTuple):
    """The time of one node, and whether computing or memory limits it; None if the node does nothing."""

    seconds: float
    bound: Bound | None


def moved_bits(meta: NodeMeta) -> Number:
    """Return the bits that a node reads and writes: operands (in the formats it reads), parameters, results."""
    if meta.node.op in GRAPH_KINDS or is_view(meta) or not meta.results:
        return 0
    tensors = [tensor for tensor in meta.args.values() if not tensor.is_parameter] + list(meta.results.values())
    return exact_int(sum(tensor_bits(tensor) for tensor in tensors) + layer_bits(meta) - unread_bits(meta))


def unread_bits(meta: NodeMeta) -> int:
    """Return the bits of parameters that a node does not read: rows of an embedding that are not looked up."""
    if meta.mase_op != "embedding":
        return 0
    table, looked_up = meta.args["weight"], meta.results["data_out_0"]
    rows, width = table.shape
    return table.format.storage_bits((max(rows - looked_up.numel // width, 0), width))


def arithmetic_intensity(meta: NodeMeta) -> float | None:
    """Return operations per byte moved, where a MAC is two; None if they are unknown or nothing is moved."""
    return operations_per_byte(operations(meta, "flops"), moved_bits(meta))


def operations_per_byte(counted: Number | None, moved: Number) -> float | None:
    """Return operations per byte; None if they are unknown or no bits are moved."""
    return None if counted is None or not moved else 8 * counted / moved


def operand_width(meta: NodeMeta) -> int:
    """Return the bits per element of the widest operand, without what blocks share."""
    found = work(meta)
    if found is None:
        return 0
    formats = [number_format for product in found.products for number_format in (product.left, product.right)]
    if found.count.multiplies or found.count.adds:
        formats += [found.data, found.other]
    return max((number_format.width for number_format in formats), default=0)


def estimate_time(meta: NodeMeta, device: Device) -> Time | None:
    """Return the least time of a node on a device; None if its operations are unknown."""
    counted = operations(meta, "flops")
    if counted is None:
        return None
    try:
        computing = counted / device.operations_per_second(operand_width(meta)) if counted else 0.0
    except ValueError as error:
        raise ValueError(f"node '{meta.node.name}': {error}") from error
    moving = moved_bits(meta) / 8 / device.bandwidth
    if not computing and not moving:
        return Time(0.0, None)
    return Time(max(computing, moving), "compute" if computing >= moving else "memory")


def by_width(table: Mapping[int | str, float], what: str) -> dict[int, float]:
    """Return the table with integer keys, narrowest first; keys in TOML are strings."""
    found = {_width(width, what): number for width, number in table.items()}
    if not found:
        raise ValueError(f"{what} must list at least one width, such as {{8 = 1e12}}")
    for width, number in found.items():
        if not (number > 0 and math.isfinite(number)):
            raise ValueError(f"{what} must be positive numbers, got {number} for {width} bits")
    return dict(sorted(found.items()))


def _width(width: int | str, what: str) -> int:
    if str(width).isdecimal() and int(width) > 0:
        return int(width)
    raise ValueError(f"{what} must have widths in bits as keys, such as 8, got '{width}'")
