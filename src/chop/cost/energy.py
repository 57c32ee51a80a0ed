"""Energy of a node, from a table of picojoules per operation that users can replace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from chop.cost.conventions import Number, Product, Work
from chop.cost.operations import is_floating_point, work
from chop.cost.parameters import weight_bits
from chop.cost.roofline import by_width, moved_bits, unread_bits
from chop.formats import Format
from chop.ir import NodeMeta
from chop.registry import closest

Table = Mapping[int | str, float]


_HOROWITZ: dict[str, dict[int | str, float]] = {
    "integer_add": {8: 0.03, 32: 0.1},
    "integer_multiply": {8: 0.2, 32: 3.1},
    "float_add": {16: 0.4, 32: 0.9},
    "float_multiply": {16: 1.1, 32: 3.7},
}
_HOROWITZ_MEMORY = {"cache_8kb": 10 / 64, "cache_32kb": 20 / 64, "cache_1mb": 100 / 64, "dram": 1300 / 64}


@dataclass(frozen=True)
class Energy:
    """Energy per operation in pJ, by default in 45 nm at 0.9 V.

    The numbers are from M. Horowitz, "Computing's energy problem", ISSCC 2014, figure 1.1.9.

    The energy of an addition is proportional to the width of its operands, that of a multiplication to the
    product of their widths. Other widths are interpolated or scaled (`at_power`).
    """

    integer_add: Table = field(default_factory=lambda: _HOROWITZ["integer_add"])
    integer_multiply: Table = field(default_factory=lambda: _HOROWITZ["integer_multiply"])
    float_add: Table = field(default_factory=lambda: _HOROWITZ["float_add"])
    float_multiply: Table = field(default_factory=lambda: _HOROWITZ["float_multiply"])
    memory: Mapping[str, float] = field(default_factory=lambda: _HOROWITZ_MEMORY)
    """pJ per bit read or written. The paper has 64-bit accesses: 10, 20 and 100 pJ, and 1.3 to 2.6 nJ for DRAM."""
    weights: str = "dram"
    """The memory that holds the weights."""
    activations: str = "cache_1mb"
    """The memory that holds the activations."""

    def __post_init__(self) -> None:
        for name in _HOROWITZ:
            object.__setattr__(self, name, by_width(getattr(self, name), name))
        for name, picojoules in self.memory.items():
            if not 0 <= picojoules < math.inf:
                raise ValueError(f"memory '{name}' must have picojoules per bit of at least 0, got {picojoules}")
        for name in (self.weights, self.activations):
            if name not in self.memory:
                raise ValueError(f"unknown memory '{name}'; {closest(name, self.memory)}")

    def add(self, width: float, *, floating_point: bool) -> float:
        """Return the energy of one addition of `width` bits, in pJ."""
        return at_power(self.float_add if floating_point else self.integer_add, width, 1)

    def multiply(self, left: float, right: float, *, floating_point: bool) -> float:
        """Return the energy of one multiplication at these operand widths, in pJ."""
        return at_power(self.float_multiply if floating_point else self.integer_multiply, left * right, 2)


def energy(meta: NodeMeta, table: Energy) -> float | None:
    """Return the energy of a node's operations and data movement in pJ; None if its operations are unknown.

    The width of an addition in a MAC is the sum of both widths for integers (8 x 4 bits: 12), and the larger width
    for floats. A MAC with one floating-point factor counts as floating point.
    """
    return energy_of(meta, work(meta), table, moved_bits(meta), weight_bits(meta))


def energy_of(meta: NodeMeta, found: Work | None, table: Energy, moved: Number, stored: Number) -> float | None:
    """Return the energy of a node, given its work, the bits that it moves, and the bits of its parameters."""
    if found is None:
        return None
    weights = max(0, min(stored - unread_bits(meta), moved))
    by_memory = weights * table.memory[table.weights] + (moved - weights) * table.memory[table.activations]
    return _arithmetic(found, is_floating_point(meta), table) + by_memory


def _arithmetic(found: Work, real_numbers: bool, table: Energy) -> float:
    total = sum(product.macs * _multiply_add(product, table) for product in found.products)
    floating_point = real_numbers and _any_floating(found.data, found.other)
    if found.count.multiplies:
        each = table.multiply(found.data.width, found.other.width, floating_point=floating_point)
        total += found.count.multiplies * each
    if found.count.adds:
        total += found.count.adds * table.add(found.data.width, floating_point=floating_point)
    return total


def _multiply_add(product: Product, table: Energy) -> float:
    left, right = product.left.width, product.right.width
    floating_point = _any_floating(product.left, product.right)
    added = max(left, right) if floating_point else left + right
    return table.multiply(left, right, floating_point=floating_point) + table.add(
        added, floating_point=floating_point
    )


def _any_floating(*formats: Format) -> bool:
    return any(number_format.floating_point for number_format in formats)


def at_power(table: Mapping[int | str, float], size: float, power: int) -> float:
    """Return the number at `size = width ** power`, for a quantity that is proportional to `size`.

    Between two widths of the table it is interpolated linearly in `size`. Outside of them the nearest entry is
    scaled: with `{8: 0.2}` and power 2, a width of 4 (size 16) gives 0.2 * 16 / 64 = 0.05. `table` is a result of
    `by_width`.
    """
    points = [(float(int(width) ** power), number) for width, number in table.items()]
    for (low, below), (high, above) in pairwise(points):
        if low <= size <= high:
            return below + (above - below) * (size - low) / (high - low)
    nearest, number = points[0] if size < points[0][0] else points[-1]
    return number * size / nearest
