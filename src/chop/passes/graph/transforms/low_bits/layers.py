"""The frame of methods that change the weights of one layer after the other, with the inputs of each."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, fx

from chop.display.progress import ProgressBar
from chop.files import write_bytes
from chop.formats import Format
from chop.hardware.resolve.layers import replace_layer, with_parameters
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import undisturbed
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph.transforms.low_bits.input_moments import InputMoments
from chop.passes.graph.transforms.low_bits.matrices import MATRIX_OPS, from_matrices, to_matrices
from chop.passes.graph.transforms.low_bits.scales import FixedScales, can_fix_scales
from chop.passes.graph.transforms.low_bits.walk import Walk
from chop.statistics.batches import limited_batches
from chop.statistics.deviation import decibel

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CalibrationArgs:
    """Arguments of all methods that look at the inputs of layers."""

    input_generator: Iterable[Mapping[str, Any]]
    """Batches by argument name, such as an `InputGenerator`."""
    num_samples: int = 128
    """The largest number of rows (images, sentences, windows of a text) to run."""
    seed: int = 0
    """The seed of torch's random numbers during the pass."""
    checkpoint: Path | None = None
    """A folder for finished layers; a pass that was interrupted continues after them. None: nothing is kept."""

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1, got {self.num_samples}")

    def settings(self) -> dict[str, Any]:
        """Return the arguments on which the result depends, apart from the data."""
        names = [field.name for field in fields(self) if field.name not in ("input_generator", "checkpoint")]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class LayerProblem:
    """A quantised layer, its weight as matrices in float32 or float64, and the moments of its inputs."""

    meta: NodeMeta
    layer: QuantizedLayer
    weight: Tensor
    moments: InputMoments

    @classmethod
    def of(cls, meta: NodeMeta, walk: Walk) -> LayerProblem:
        """Return the layer of a node with the inputs that it has in a walk."""
        layer = meta.quantized
        assert isinstance(layer, QuantizedLayer), "only quantised layers are changed"
        inputs = [layer.rounded("data_in_0", x) for x in walk.inputs(meta.node)]
        moments = InputMoments.of(layer, inputs, walk.masks, meta.node.name)
        return cls(meta, layer, to_matrices(layer, _weight(layer)), moments)

    @property
    def number_format(self) -> Format:
        return self.layer.formats["weight"]

    def rounded(self, matrices: Tensor) -> Tensor:
        """Return matrices as the layer rounds them."""
        weight = from_matrices(self.layer, matrices).to(_weight(self.layer).dtype)
        return to_matrices(self.layer, self.layer.rounded("weight", weight))

    def error(self, rounded: Tensor) -> Tensor:
        """Return the mean squared error of each output, [groups, outputs]."""
        return self.moments.energy(rounded.double() - self.weight.double())

    def decibels(self, rounded: Tensor) -> float:
        """Return the signal-to-noise ratio of the layer's output with a rounded weight."""
        return decibel(float(self.moments.energy(self.weight).sum()), float(self.error(rounded).sum()))

    def fixed_scales(self, search: bool) -> FixedScales:
        """Return the scales of the weight, chosen for the least error if `search`; as matrices."""
        layer, weight = self.layer, _weight(self.layer)
        importance = self.moments.importance.to(weight.dtype).expand_as(self.weight) if search else None
        shaped = None if importance is None else from_matrices(layer, importance)
        found = FixedScales.of(self.number_format, layer.scale_of("weight"), weight, shaped)
        return found.mapped(lambda tensor: to_matrices(layer, tensor))

    def no_worse(self, matrices: Tensor) -> Tensor:
        """Return these matrices for the outputs where they are better than rounding to nearest, else the weight."""
        better = self.error(self.rounded(matrices)) < self.error(self.rounded(self.weight))
        candidates = [torch.where(better.unsqueeze(-1), matrices, self.weight), matrices, self.weight]
        errors = [float(self.error(self.rounded(each)).sum()) for each in candidates]
        return candidates[errors.index(min(errors))]


Method = Callable[[LayerProblem], Tensor]
"""Returns new matrices for the weight of a layer."""
Change = Callable[[NodeMeta, Walk, list[Any]], dict[str, Any]]
"""Changes the layer of a node, given its outputs in the float model if they are compared; returns a report."""


def adjust_layers(graph: MaseGraph, args: CalibrationArgs, name: str, method: Method) -> dict[str, Any]:
    """Change the weights of all quantised layers; no output becomes worse than with rounding to nearest."""

    def change(meta: NodeMeta, walk: Walk, outputs: list[Any]) -> dict[str, Any]:
        return _adjust(LayerProblem.of(meta, walk), args, name, method)

    info = change_layers(graph, args, name, change)
    _warn_about_few_rows(info["layers"])
    return info


def change_layers(
    graph: MaseGraph, args: CalibrationArgs, name: str, change: Change, *, compare: bool = False
) -> dict[str, Any]:
    """Change all layers with a quantised weight, each with the inputs it reads after those before it have changed.

    With `compare`, the graph also runs without rounding. A layer that several nodes call is changed at the first.
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
        for node in _up_to_last(graph, todo):
            outputs = [] if in_float is None else in_float.run(node)
            if node in todo:
                report[node.name] = change(todo[node], walk, outputs)
                progress.step()
            walk.run(node)
    for target, mode in modes.items():
        graph.model.get_submodule(str(target)).training = mode
    return {"layers": report}


def gain(before: float, after: float) -> dict[str, float]:
    """Return two signal-to-noise ratios in dB and their difference, for the report of a layer."""
    return {"before_db": before, "after_db": after, "gain_db": after - before if after != before else 0.0}


def _warn_about_few_rows(report: Mapping[str, Mapping[str, Any]]) -> None:
    """Warn if a layer has more inputs than rows: its result then depends on the choice of the rows."""
    few = [name for name, found in report.items() if found["rows"] < found["inputs"]]
    if few:
        others = f" and {len(few) - 1} other layers" if len(few) > 1 else ""
        logger.warning(
            "node '%s'%s: %d rows of data for %d inputs are few; give more batches, or increase num_samples",
            *(few[0], others, report[few[0]]["rows"], report[few[0]]["inputs"]),
        )


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
    meta, layer, weight = problem.meta, problem.layer, problem.weight
    before = problem.decibels(problem.rounded(weight))
    store = _Checkpoint(args.checkpoint, f"{name}-{meta.node.name}", problem, args)
    result = store.load()
    if result is None:
        result = weight
        if can_fix_scales(problem.number_format, layer.scale_of("weight"), _weight(layer)):
            result = problem.no_worse(method(problem))
        store.save(result)
    after = problem.decibels(problem.rounded(result))
    set_parameters(meta, {"weight": from_matrices(layer, result)})
    logger.info("%s '%s': %.1f dB, before %.1f dB", name, meta.node.name, after, before)
    return {**gain(before, after), "rows": problem.moments.num_rows, "inputs": weight.shape[-1]}


def _weight(layer: QuantizedLayer) -> Tensor:
    weight = layer.weight
    assert isinstance(weight, Tensor), "layers of MATRIX_OPS have a weight"
    return weight.detach()


def _up_to_last(graph: MaseGraph, todo: Mapping[fx.Node, NodeMeta]) -> list[fx.Node]:
    """Return the nodes of a graph up to the last one in `todo`."""
    nodes = list(graph.fx_graph.nodes)
    last = max((i for i, node in enumerate(nodes) if node in todo), default=-1)
    return nodes[: last + 1]


class _Checkpoint:
    """The file of one finished layer; it is used only if weight, inputs and arguments are the same as before."""

    def __init__(self, folder: Path | None, name: str, problem: LayerProblem, args: CalibrationArgs) -> None:
        self.path = None if folder is None else folder / f"{name}.safetensors"
        self.identity = "" if folder is None else _digest(problem, args)

    def load(self) -> Tensor | None:
        if self.path is None or not self.path.exists():
            return None
        try:
            with safe_open(self.path, "pt") as file:
                same = (file.metadata() or {}).get("identity") == self.identity
                return file.get_tensor("weight") if same else None
        except SafetensorError as error:
            raise ValueError(f"{self.path} is corrupt ({error}); delete it to compute the layer again") from error

    def save(self, weight: Tensor) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.path, save({"weight": weight.contiguous()}, {"identity": self.identity}))


def _digest(problem: LayerProblem, args: CalibrationArgs) -> str:
    """Return what the result for a layer depends on, as a hash."""
    digest = hashlib.sha256(repr((args.settings(), problem.number_format, problem.layer.formats)).encode())
    for tensor in (problem.weight, problem.moments.products):
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
