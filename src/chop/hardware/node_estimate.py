"""A quick estimate of the circuit of one node, from the formats of its own operands; for searches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from chop.config import DesignOptions
from chop.formats import Format
from chop.formats.integer import Integer
from chop.formats.mixed_integer import MixedInteger
from chop.hardware.adders import solve_csd
from chop.hardware.program.instructions import Block, linear_map
from chop.hardware.program.number_formats import limits, mixed_signal
from chop.hardware.program.signal import IntArray, Signal
from chop.hardware.resolve.batch_norm import NORMS, WEIGHTED, factor_and_summand
from chop.hardware.rtl.circuit import Circuit, levels_between_registers
from chop.hardware.rtl.estimate import AreaEstimate, estimate_folded
from chop.hardware.rtl.folded import fold
from chop.hardware.rtl.units import CircuitUnit
from chop.hardware.rtl.unrolled import block_results
from chop.ir import NodeMeta

SHARED = 0.82
"""The share of adders that is left when a solver lets outputs share them."""
UNQUANTIZED = Integer(16, 8)
"""The format that an operand without a fixed-point format is counted with."""


EstimatedStrategy = Literal["unrolled", "folded"]


@dataclass(frozen=True)
class NodeEstimate:
    """The area of one node, and its latency in cycles."""

    area: AreaEstimate = field(default_factory=AreaEstimate)
    latency: float = 0.0

    def __add__(self, other: NodeEstimate) -> NodeEstimate:
        return NodeEstimate(self.area + other.area, self.latency + other.latency)

    @property
    def lut(self) -> float:
        return self.area.lut

    @property
    def dsp(self) -> float:
        return self.area.dsp


def estimate_node(meta: NodeMeta, strategy: EstimatedStrategy) -> NodeEstimate:
    """Return the estimate of a node: its products, and the rounding of its input."""
    if "data_in_0" not in meta.args or not meta.operands:
        return NodeEstimate()
    if meta.mase_op == "relu" and not meta.args["data_in_0"].format.rounds:
        return NodeEstimate()  # part of the rounding after it
    data, shape = _fixed(meta.args["data_in_0"].format), meta.args["data_in_0"].shape[1:]
    is_mixed = isinstance(data, MixedInteger)
    bits = data.storage_bits(shape) if is_mixed else int(np.prod(shape)) * data.width
    rounded = NodeEstimate(AreaEstimate(float(bits)))
    if meta.mase_op not in (*WEIGHTED, *NORMS) or meta.module is None:
        return rounded
    matrix, copies = _matrix(meta)
    if strategy == "folded" and meta.mase_op == "linear":
        widest = (0, 2**data.width - 1) if is_mixed else limits(data)
        return rounded + _folded(matrix, widest)
    if not is_mixed:
        return rounded + _unrolled(matrix, [limits(data)] * matrix.shape[1], copies)
    return rounded + _unrolled(*_mixed_inputs(matrix, mixed_signal(data, tuple(shape))), copies)


def _mixed_inputs(matrix: IntArray, signal: Signal) -> tuple[IntArray, list[tuple[int, int]]]:
    """Return a matrix with the factors that align its inputs, and the range of each input."""
    channels = [each.reshape(each.shape[0], -1) for each in (signal.frac, signal.low, signal.high)]
    frac, low, high = channels[0].max(1), channels[1].min(1), channels[2].max(1)
    inputs = matrix.shape[1]
    if inputs % len(frac):  # a grouped convolution, whose matrix has the inputs of one group only
        return matrix, [(int(low.min()), int(high.max()))] * inputs
    frac, low, high = (np.repeat(each, inputs // len(each)) for each in (frac, low, high))
    used = (high > low) & matrix.any(axis=0)
    shift = np.where(used, frac[used].max(initial=0) - frac, 0)
    return matrix << shift, list(zip(low.tolist(), high.tolist(), strict=True))


def _unrolled(matrix: IntArray, ranges: list[tuple[int, int]], copies: int) -> NodeEstimate:
    outputs, inputs = matrix.shape
    circuit = Circuit(levels_between_registers(DesignOptions()))
    wires = [
        circuit.input("", *each) if column.any() and each != (0, 0) else None
        for column, each in zip(matrix.T, ranges, strict=True)
    ]
    places = np.arange(inputs)[None], np.arange(outputs)[None]
    block = Block(matrix, np.ones(outputs, dtype=np.int64), *places)
    results = block_results(circuit, solve_csd(matrix), block, wires, [[] for _ in range(outputs)])
    stages = max((wire.stage for wire in results if wire is not None), default=0)
    registers = circuit.num_register_bits + sum(wire.width for wire in results if wire is not None)
    return NodeEstimate(AreaEstimate(SHARED * circuit.luts * copies, registers * copies), float(stages + 1))


def _folded(matrix: IntArray, limits_of_input: tuple[int, int]) -> NodeEstimate:
    outputs, inputs = matrix.shape
    source = Signal.uniform((inputs,), 0, *limits_of_input)
    none, places = np.zeros((), dtype=np.int64), (np.arange(inputs)[None], np.arange(outputs)[None])
    blocks = [(matrix, none, np.ones(outputs, dtype=np.int64), none, *places)]
    head = linear_map("", ("",), source, blocks, (outputs,), "linear")
    folded = fold(CircuitUnit(head, (), (source,)), DesignOptions())
    return NodeEstimate(estimate_folded(folded), float(folded.latency))


def _matrix(meta: NodeMeta) -> tuple[IntArray, int]:
    """Return the integers [outputs, inputs] of a node's weights, and how many copies of them there are."""
    layer: Any = meta.module
    number_format = _fixed(meta.args["weight"].format) if "weight" in meta.args else UNQUANTIZED
    result = meta.results["data_out_0"].shape
    positions = int(np.prod(result[2:])) if meta.mase_op != "linear" else int(np.prod(result[1:-1]))
    if meta.mase_op in NORMS:
        if layer.running_mean is None:
            return np.zeros((1, 1), dtype=np.int64), 1
        return np.diag(_integers(factor_and_summand(layer)[0], number_format)), positions
    weight = meta.value("weight")
    assert weight is not None, "a layer has its weight"
    return _integers(weight, number_format).reshape(len(weight), -1), positions


def _integers(value: Tensor, number_format: Format) -> IntArray:
    integers, scale = number_format.integers(value.detach().to(torch.float64))
    if isinstance(number_format, MixedInteger):  # the fractions of one output are aligned
        steps = torch.where(integers == 0, torch.inf, scale.expand_as(integers))
        finest = steps.reshape(len(steps), -1).amin(1).reshape(-1, *(1,) * (steps.dim() - 1))
        integers = torch.where(integers == 0, 0, integers * (scale / finest))
    return integers.numpy().astype(np.int64)


def _fixed(number_format: Format) -> Any:
    """Return a format whose values are integers, or the one that it is counted with."""
    width = number_format.width
    if isinstance(number_format, Integer | MixedInteger):
        return number_format
    if number_format.name in ("binary", "ternary"):
        return _Signs(number_format)
    return UNQUANTIZED if width > UNQUANTIZED.width else Integer(max(2, width))


class _Signs:
    """A format of signs, with the limits of an integer."""

    is_signed = True
    width = 2

    def __init__(self, number_format: Format) -> None:
        self.integers = number_format.integers
