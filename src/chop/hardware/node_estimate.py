"""A quick estimate of the circuit of one node, from the formats of its own operands; for searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.integer import Integer
from chop.hardware.adders.csd import solve_csd
from chop.hardware.program.instructions import Block
from chop.hardware.program.number_formats import limits
from chop.hardware.program.signal import IntArray
from chop.hardware.resolve.batch_norm import NORMS, WEIGHTED, factor_and_summand
from chop.hardware.rtl.circuit import Circuit
from chop.hardware.rtl.pipeline import PipelineOptions
from chop.hardware.rtl.unrolled import block_results
from chop.ir import NodeMeta

SHARED = 0.82
"""The share of adders that is left when a solver lets outputs share them."""
UNQUANTIZED = Integer(16, 8)
"""The format that an operand without a fixed-point format is counted with."""
P_IN, P_OUT, FOLDED_OVERHEAD = 4, 4, 5


@dataclass(frozen=True)
class NodeEstimate:
    """Look-up tables, DSP blocks and cycles of one node."""

    lut: float = 0.0
    dsp: float = 0.0
    latency: float = 0.0

    def __add__(self, other: NodeEstimate) -> NodeEstimate:
        return NodeEstimate(self.lut + other.lut, self.dsp + other.dsp, self.latency + other.latency)


def estimate_node(meta: NodeMeta, strategy: Literal["unrolled", "folded"]) -> NodeEstimate:
    """Return the estimate of a node: its products, and the rounding of its input."""
    if "data_in_0" not in meta.args or not meta.operands:
        return NodeEstimate()
    data = _fixed(meta.args["data_in_0"].format)
    elements = int(np.prod(meta.args["data_in_0"].shape[1:]))
    rounded = NodeEstimate(lut=float(elements * data.width), latency=0.0)
    if meta.mase_op not in (*WEIGHTED, *NORMS) or meta.module is None:
        return rounded
    matrix, copies = _matrix(meta)
    if strategy == "folded" and meta.mase_op == "linear":
        outputs, inputs = matrix.shape
        p_in, p_out = min(P_IN, inputs), min(P_OUT, outputs)
        steps = -(-inputs // p_in) * -(-outputs // p_out)
        width = data.width + _width(matrix)
        lut = inputs * data.width + p_in * p_out * (width + _width(matrix)) + outputs
        return rounded + NodeEstimate(float(lut), float(p_in * p_out), float(steps + FOLDED_OVERHEAD))
    return rounded + _unrolled(matrix, data, copies)


def _unrolled(matrix: IntArray, data: Integer, copies: int) -> NodeEstimate:
    outputs, inputs = matrix.shape
    circuit = Circuit(PipelineOptions().cutoff)
    wires = [circuit.input("", *limits(data)) if column.any() else None for column in matrix.T]
    places = np.arange(inputs)[None], np.arange(outputs)[None]
    block = Block(matrix, np.ones(outputs, dtype=np.int64), *places)
    results = block_results(circuit, solve_csd(matrix), block, wires, [[] for _ in range(outputs)])
    stages = max((wire.stage for wire in results if wire is not None), default=0)
    return NodeEstimate(lut=SHARED * circuit.luts * copies, latency=float(stages + 1))


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
    return number_format.integers(value.detach().to(torch.float64))[0].numpy().astype(np.int64)


def _fixed(number_format: Format) -> Any:
    """Return a format whose values are integers, or the one that it is counted with."""
    width = number_format.width
    if isinstance(number_format, Integer) or number_format.name in ("binary", "ternary"):
        return number_format if isinstance(number_format, Integer) else _Signs(number_format)
    return UNQUANTIZED if width > UNQUANTIZED.width else Integer(max(2, width))


class _Signs:
    """A format of signs, with the limits of an integer."""

    is_signed = True
    width = 2

    def __init__(self, number_format: Format) -> None:
        self.integers = number_format.integers


def _width(matrix: IntArray) -> int:
    return int(np.abs(matrix).max(initial=1)).bit_length() + 1
