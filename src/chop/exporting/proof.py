"""Comparing the outputs of an exported file with those of the graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from chop.display.numbers import counted
from chop.formats.integer import Integer
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import NodeInterpreter, bind_inputs, evaluation_mode, run_model, tensors_in
from chop.ops.base import numel

Batch = Mapping[str, Any]
MAX_LAYER_ROWS = 64
"""Rows of the batch on which layers are compared one by one."""
FLOAT_TOLERANCE = 2.0**-16
"""Of the largest magnitude of a result: float32 sums in another order, and other approximations of functions."""
MAX_SHARE_OF_STEPS = 0.01
"""The largest share of elements of a result that are rounded to the next number."""
FLOAT32_SIGNIFICAND = 24


class Engine(Protocol):
    """A program that runs an exported file."""

    is_exact: bool
    """Whether it computes every sum as PyTorch does, so that no difference is allowed."""

    @property
    def title(self) -> str:
        """Its name and version, such as `onnxruntime 1.31.1`."""

    def run(self, inputs: Batch) -> list[Tensor]:
        """Return the outputs for a batch."""

    def switch_off_wrong_fusions(self, inputs: Batch) -> bool:
        """Use another way to run the file, if this one computes single layers wrongly; return whether it does."""
        return False

    def run_layers(self, inputs: Batch, results: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the result of each node, computed from the given `results` of the nodes before it."""


@dataclass(frozen=True)
class Difference:
    """The first node whose result differs by more than its tolerance."""

    node: str
    largest: float
    tolerance: float

    def __str__(self) -> str:
        return f"node '{self.node}' differs by {self.largest:.3g}, more than {self.tolerance:.3g}"


@dataclass(frozen=True)
class Proof:
    """The outputs of an engine compared with those of PyTorch."""

    engine: str
    num_outputs: int
    """The number of samples."""
    num_equal: int
    largest: float
    """The largest difference of two outputs."""
    magnitude: float = 0.0
    """The largest magnitude of all outputs."""
    difference: Difference | None = None
    explained: bool = True
    """Whether all differences are within the tolerance of the node that causes them."""

    def __str__(self) -> str:
        text = f"{self.num_equal:,} of {counted(self.num_outputs, 'output')} equal ({self.engine})"
        if self.num_equal == self.num_outputs:
            return text
        text += f", largest difference {self.largest:.3g} of {self.magnitude:.3g}"
        if not self.explained:
            return f"{text}: {self.difference}" if self.difference is not None else text
        return (
            f"{text}: each node is within {FLOAT_TOLERANCE:.2g} of its largest result, or one step of the format "
            "that rounds it, because float32 sums are added in another order"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for `summary.json`."""
        return {
            "engine": self.engine,
            "outputs": self.num_outputs,
            "equal": self.num_equal,
            "largest_difference": self.largest,
        }


def compare(graph: MaseGraph, engine: Engine, batches: Iterable[Batch]) -> Proof:
    """Return how the outputs of an engine differ from those of the graph on all batches."""
    given = list(batches)
    total = equal = 0
    largest = magnitude = 0.0
    worst: Batch = {}
    for batch in given:
        expected, found = outputs_of(graph, batch), engine.run(batch)
        if [tuple(each.shape) for each in expected] != [tuple(each.shape) for each in found]:
            shapes = [[list(each.shape) for each in outputs] for outputs in (found, expected)]
            raise ValueError(
                f"the file returns outputs of the shapes {shapes[0]} in {engine.title}, not {shapes[1]}"
            )
        same = _equal_rows(expected, found)
        total, equal = total + len(same), equal + int(same.sum())
        difference = max([0.0, *map(_largest_difference, expected, found)])
        magnitude = max([magnitude, *map(_largest_magnitude, expected)])
        if not worst or difference > largest:
            worst = _rows(batch, ~same)
        largest = max(largest, difference)
    if not given:
        raise ValueError("an export is proven on samples: there are none")
    if equal == total:
        return Proof(engine.title, total, equal, largest, magnitude)
    first = first_difference(graph, engine, worst)
    if first is None and engine.switch_off_wrong_fusions(worst):
        return compare(graph, engine, given)
    return Proof(engine.title, total, equal, largest, magnitude, first, first is None and not engine.is_exact)


def _rows(batch: Batch, wanted: Tensor) -> Batch:
    """Return some of the rows of a batch that differ, and others after them."""
    order = wanted.to(torch.uint8).argsort(descending=True, stable=True)[:MAX_LAYER_ROWS]
    return {
        name: value[order] if isinstance(value, Tensor) and value.dim() and len(value) == len(wanted) else value
        for name, value in batch.items()
    }


def outputs_of(graph: MaseGraph, batch: Batch) -> list[Tensor]:
    """Return the output tensors of the graph for a batch, in evaluation mode."""
    with evaluation_mode(graph.model):
        output = run_model(graph, batch)
        # A dataclass of tensors stands for its fields.
        return tensors_in(dict(vars(output)) if hasattr(output, "__dataclass_fields__") else output)


def first_difference(graph: MaseGraph, engine: Engine, batch: Batch) -> Difference | None:
    """Return the first node whose result, from the same inputs, differs by more than its tolerance."""
    interpreter = NodeInterpreter(graph.model)
    results: dict[str, Tensor] = {}
    with evaluation_mode(graph.model):
        for node in interpreter.steps(*bind_inputs(graph, batch)):
            if isinstance(interpreter.env[node], Tensor):
                results[node.name] = interpreter.env[node].clone()  # a later node may overwrite it
    found = engine.run_layers(batch, results)
    for meta in graph.metas():
        name = meta.node.name
        if name not in found:
            continue
        expected = results[name]
        relative = 0.0 if engine.is_exact or not expected.numel() else tolerance_of(meta)
        magnitude = _largest_magnitude(expected) if relative else 0.0
        allowed = relative * magnitude
        difference = _largest_difference(expected, found[name])
        if difference <= allowed or (relative and _differs_by_steps(meta, expected, found[name])):
            continue
        return Difference(name, difference, allowed)
    return None


def _differs_by_steps(meta: NodeMeta, expected: Tensor, found: Tensor) -> bool:
    """Whether few elements of a rounded result differ, by one step: their sums are in the middle of two numbers."""
    step = step_of_result(meta, float(expected.abs().max()))
    count = int((expected != found).sum())
    few = count <= max(1, MAX_SHARE_OF_STEPS * expected.numel())
    return few and _largest_difference(expected, found) <= step * (1 + FLOAT_TOLERANCE)


def _equal_rows(expected: list[Tensor], found: list[Tensor]) -> Tensor:
    """Return for each sample whether all of its outputs are equal; NaN equals NaN."""
    num_rows = len(expected[0]) if expected and expected[0].dim() else 1
    same = torch.ones(num_rows, dtype=torch.bool)
    for mine, other in zip(expected, found, strict=True):
        equal = _is_equal(mine, other)
        same &= equal.reshape(num_rows, -1).all(1) if len(mine.reshape(-1)) % num_rows == 0 else equal.all()
    return same


def _largest_difference(mine: Tensor, other: Tensor) -> float:
    difference = (mine.double() - other.double()).abs().where(~_is_equal(mine, other), 0.0)
    return float(difference.nan_to_num(nan=torch.inf).max()) if difference.numel() else 0.0


def _is_equal(mine: Tensor, other: Tensor) -> Tensor:
    """Return which elements are equal; so are infinities, and NaN."""
    return (mine == other) | (mine.isnan() & other.isnan())


def _largest_magnitude(x: Tensor) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    return float(x.double().abs().nan_to_num(0.0, 0.0, 0.0).max()) if x.numel() else 0.0


def tolerance_of(meta: NodeMeta) -> float:
    """Return the largest difference of a node's result, relative to its largest magnitude.

    It is 0 where every sum is exact in float32: all operands are in fixed point, and sums need at most 24 bits.
    """
    return 0.0 if _sums_are_exact(meta) else FLOAT_TOLERANCE


def step_of_result(meta: NodeMeta, largest: float) -> float:
    """Return the distance of two numbers near `largest` in the format that rounds the result of a node, or 0."""
    quantized = meta.quantized
    number_format = None if quantized is None else quantized.formats.get("data_out_0")
    if number_format is None or not number_format.rounds:
        return 0.0
    scale = meta.scale_of("data_out_0")
    if scale is not None and isinstance(number_format, Integer):
        return float(scale.max())
    if isinstance(number_format, Integer) and number_format.is_fixed_point:
        return math.ldexp(1.0, -int(number_format.precision[1]))
    mantissa = getattr(getattr(number_format, "grid", None), "mantissa", number_format.width - 2)
    return largest * math.ldexp(1.0, -mantissa)


def _sums_are_exact(meta: NodeMeta) -> bool:
    if meta.op is None or not meta.operands or not meta.results:
        return False
    formats = {name: meta.args[name].format for name in meta.operands}
    count = meta.op.count(meta.call())
    if (
        count is None
        or not count.macs
        or count.multiplies
        or set(formats) - {"data_in_0", "data_in_1", "weight", "bias"}
    ):
        return False
    fixed = {name: each for name, each in formats.items() if isinstance(each, Integer) and each.is_fixed_point}
    if len(fixed) != len(formats):
        return False
    terms = count.macs // max(numel(tuple(meta.results["data_out_0"].shape)), 1)
    factors = [_exponents(each) for name, each in fixed.items() if name != "bias"]
    lowest = sum(low for low, _ in factors)
    highest = sum(high for _, high in factors) + math.ceil(math.log2(max(terms, 1)))
    if "bias" in fixed:
        low, high = _exponents(fixed["bias"])
        lowest, highest = min(lowest, low), max(highest, high) + 1
    return highest - lowest <= FLOAT32_SIGNIFICAND


def _exponents(number_format: Integer) -> tuple[int, int]:
    """Return the exponents of two of the last bit, and of a bound on the magnitude."""
    width, fraction = (int(number) for number in number_format.precision)
    return -fraction, width - number_format.is_signed - fraction
