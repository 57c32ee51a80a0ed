"""The frame of methods that change the weights of one layer after the other, with the inputs of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop.config import option
from chop.display.progress import ProgressBar
from chop.hardware.resolve.layers import replace_layer, with_parameters
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import undisturbed
from chop.nn.quantized import QuantizedLayer
from chop.passes.base import Batches, DataArgs, SeedArgs
from chop.passes.graph.transforms.low_bits.layer_checkpoint import LayerCheckpoint
from chop.passes.graph.transforms.low_bits.layer_problem import LayerProblem
from chop.passes.graph.transforms.low_bits.matrices import MATRIX_OPS, from_matrices
from chop.passes.graph.transforms.low_bits.walk import Walk
from chop.statistics.batches import limited_batches

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CalibrationArgs(SeedArgs, DataArgs):
    """Arguments of all methods that look at the inputs of layers."""

    input_generator: Batches = option(help="Batches by argument name, or an `InputGenerator`.")
    num_samples: int = option(128, least=1, help="The largest number of rows to run.")
    checkpoint: Path | None = None
    """A folder for finished layers; a pass that was interrupted continues after them. None: nothing is kept."""

    def settings(self) -> dict[str, Any]:
        """Return the arguments on which the result depends, apart from the data."""
        names = [field.name for field in fields(self) if field.name not in ("input_generator", "checkpoint")]
        return {name: getattr(self, name) for name in names}


Method = Callable[[LayerProblem], Tensor]
"""Returns new matrices for the weight of a layer."""


@dataclass(frozen=True)
class RoundingArgs(CalibrationArgs):
    """Arguments of the methods that choose how each weight is rounded."""

    search_scales: bool = True
    """Whether the scale of each group is chosen for the least error, rather than from its largest weight."""
    damping: float | None = None
    """What is added to the diagonal of the Hessian, as a fraction of its mean; None: 0.001 to 0.01, by the rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.damping is not None and not self.damping > 0:
            raise ValueError(f"'damping' must be above 0, got {self.damping}")


@dataclass(frozen=True)
class FloatValues:
    """What a layer reads and returns in the float model, by batch; empty if that is not computed."""

    inputs: list[Any]
    outputs: list[Any]


Change = Callable[[NodeMeta, Walk, FloatValues], dict[str, Any]]
"""Changes the layer of a node and returns a report."""


def adjust_layers(
    graph: MaseGraph, args: CalibrationArgs, name: str, method: Method, *, compare: bool = True
) -> dict[str, Any]:
    """Change the weights of all quantised layers; no output becomes worse than with rounding to nearest.

    With `compare`, outputs are compared with those of the float model, else with those of the weights in float for
    the same inputs.
    """

    def change(meta: NodeMeta, walk: Walk, in_float: FloatValues) -> dict[str, Any]:
        return _adjust(LayerProblem.of(meta, walk, in_float.inputs if compare else None), args, name, method)

    info = change_layers(graph, args, name, change, compare=compare)
    report = info["layers"]
    few = [layer for layer, found in report.items() if found["rows"] < found["inputs"]]
    if few:  # the result depends on the choice of the rows
        others = f" and {len(few) - 1} other layers" if len(few) > 1 else ""
        logger.warning(
            "node '%s'%s: %d rows of data for %d inputs are few; give more batches, or increase num_samples",
            *(few[0], others, report[few[0]]["rows"], report[few[0]]["inputs"]),
        )
    return info


def change_layers(
    graph: MaseGraph, args: CalibrationArgs, name: str, change: Change, *, compare: bool = True
) -> dict[str, Any]:
    """Change all layers with a quantised weight, each with the inputs it reads after those before it have changed.

    With `compare`, the graph also runs without rounding, with the weights before the change. A layer that several
    nodes call is changed at the first.
    """
    todo = {meta.node: meta for meta in weighted_layers(graph)}
    report: dict[str, dict[str, Any]] = {}
    batches = list(limited_batches(args.input_generator, args.num_samples))
    if not batches:
        raise ValueError(f"{name}: input_generator yields no batches")
    modes = {meta.node.target: meta.module.training for meta in todo.values() if meta.module is not None}
    with calibrating(graph, args.seed), ProgressBar(name, len(todo)) as progress:
        walk = Walk(graph, batches)
        in_float = Walk(graph, batches, in_float=True) if compare else None
        for node in graph.fx_graph.nodes:
            if len(report) == len(todo):
                break
            inputs = [] if in_float is None or node not in todo else in_float.inputs(node)
            outputs = [] if in_float is None else in_float.run(node)
            if node in todo:
                report[node.name] = change(todo[node], walk, FloatValues(inputs, outputs))
                progress.step()
            walk.run(node)
    for target, mode in modes.items():
        graph.model.get_submodule(str(target)).training = mode
    return {"layers": report}


def gain(before: float, after: float) -> dict[str, float]:
    """Return two signal-to-noise ratios in dB and their difference, for the report of a layer."""
    return {"before_db": before, "after_db": after, "gain_db": after - before if after != before else 0.0}


def weighted_layers(graph: MaseGraph) -> list[NodeMeta]:
    """Return the nodes that call a layer with a quantised weight, one per layer."""
    found: dict[int, NodeMeta] = {}
    for meta in graph.annotated_metas():
        layer = meta.quantized
        if isinstance(layer, QuantizedLayer) and meta.mase_op in MATRIX_OPS and "weight" in layer.formats:
            found.setdefault(id(layer), meta)
    return list(found.values())


@contextmanager
def calibrating(graph: MaseGraph, seed: int) -> Iterator[None]:
    """Run in evaluation mode, without gradients, with the random numbers of a seed; then restore all of it."""
    with undisturbed(graph.model):
        torch.manual_seed(seed)
        yield


def set_parameters(meta: NodeMeta, values: Mapping[str, Tensor]) -> None:
    """Give the layer of a node new parameters; the original model keeps its own."""
    layer = meta.module
    assert layer is not None, "only layers have parameters"
    replace_layer(meta, with_parameters(layer, values))


def _adjust(problem: LayerProblem, args: CalibrationArgs, name: str, method: Method) -> dict[str, Any]:
    meta, original = problem.meta, (problem.original, problem.bias)
    before = problem.decibels(*original)
    settings = (args.settings(), problem.number_format, problem.layer.formats)
    store = LayerCheckpoint(args.checkpoint, f"{name}-{meta.node.name}", settings, problem.tensors())
    stored = store.load()
    if stored is None:
        try:
            result = problem.no_worse(method(problem)) if problem.has_fixed_scales else original
        except ValueError as error:
            raise ValueError(f"{name}: node '{meta.node.name}': {error}") from error
        weight, bias = result
        store.save({"weight": weight} | ({} if bias is None else {"bias": bias}))
    else:
        result = stored["weight"], stored.get("bias")
    after = problem.decibels(*result)
    set_matrices(problem, *result)
    logger.info("%s '%s': %.1f dB, before %.1f dB", name, meta.node.name, after, before)
    return {**gain(before, after), "rows": problem.moments.num_rows, "inputs": problem.original.shape[-1]}


def set_matrices(problem: LayerProblem, weight: Tensor, bias: Tensor | None) -> None:
    """Give a layer a new weight, and a new bias if it has one."""
    values = {"weight": from_matrices(problem.layer, weight)}
    set_parameters(problem.meta, values if bias is None else {**values, "bias": bias.flatten()})
