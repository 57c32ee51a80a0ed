"""A network of adders that multiplies a vector by a constant matrix."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from chop.hardware.program.signal import IntArray

Range = tuple[int, int]


@dataclass(frozen=True)
class Addition:
    """`(left << left_shift) + (right << right_shift)`, or their difference; one of the shifts is 0."""

    left: int
    right: int
    left_shift: int
    right_shift: int
    subtract: bool

    def apply(self, left: Any, right: Any) -> Any:
        """Return the sum or the difference of two values."""
        a, b = left << self.left_shift, right << self.right_shift
        return a - b if self.subtract else a + b


@dataclass(frozen=True)
class AdderOutput:
    """A value of the network, shifted and possibly negated; 0 if `value` is None."""

    value: int | None
    shift: int = 0
    negated: bool = False


@dataclass(frozen=True)
class AdderGraph:
    """Values are numbered: first the inputs, then the additions, in an order in which they can be computed."""

    num_inputs: int
    additions: tuple[Addition, ...]
    outputs: tuple[AdderOutput, ...]

    def run(self, inputs: IntArray) -> IntArray:
        """Return [rows, outputs] for integers [rows, inputs]."""
        values = self._values(inputs)
        columns = [
            np.zeros(len(inputs), dtype=np.int64)
            if out.value is None
            else (values[out.value] << out.shift) * (-1 if out.negated else 1)
            for out in self.outputs
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(inputs), 0), dtype=np.int64)

    def _values(self, inputs: IntArray) -> list[IntArray]:
        """Return all values for integers [rows, inputs]."""
        values = [inputs[:, i] for i in range(self.num_inputs)]
        for each in self.additions:
            values.append(each.apply(values[each.left], values[each.right]))
        return values

    @cached_property
    def matrix(self) -> IntArray:
        """The matrix [outputs, inputs] that the network multiplies by."""
        return self.run(np.eye(self.num_inputs, dtype=np.int64)).T

    def ranges(self, inputs: list[Range]) -> list[Range]:
        """Return the smallest and largest integer of each value, exactly: 4 x - x is 3 x."""
        factors = np.array(self._values(np.eye(self.num_inputs, dtype=np.int64)))
        low, high = np.array(inputs, dtype=np.int64).reshape(-1, 2).T
        positive, negative = np.maximum(factors, 0), np.minimum(factors, 0)
        lowest, highest = positive @ low + negative @ high, positive @ high + negative @ low
        return list(zip(lowest.tolist(), highest.tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the network as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the network that `to_json` was called on."""
        additions = tuple(Addition(**each) for each in data["additions"])
        return cls(data["num_inputs"], additions, tuple(AdderOutput(**each) for each in data["outputs"]))


class GraphBuilder:
    """An adder graph while it is built; equal additions are shared."""

    def __init__(self, num_inputs: int) -> None:
        self.num_inputs = num_inputs
        self.additions: list[Addition] = []
        self._known: dict[Addition, int] = {}

    def add(self, left: int, right: int, left_shift: int, right_shift: int, subtract: bool) -> tuple[int, int]:
        """Return the number of a sum, and by how much it is to be shifted to the left."""
        common = min(left_shift, right_shift)
        new = Addition(left, right, left_shift - common, right_shift - common, subtract)
        if new not in self._known:
            self._known[new] = self.num_inputs + len(self.additions)
            self.additions.append(new)
        return self._known[new], common

    def build(self, outputs: list[AdderOutput]) -> AdderGraph:
        """Return the graph."""
        return AdderGraph(self.num_inputs, tuple(self.additions), tuple(outputs))
