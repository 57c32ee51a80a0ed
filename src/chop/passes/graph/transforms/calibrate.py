"""Choose fraction bits and scales from data."""

from __future__ import annotations

import itertools
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, fx

from chop.config.sweep import CalibrationMethod
from chop.display.progress import ProgressBar
from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import FloatInterpreter, bind_inputs, tensors_in, undisturbed
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.base import BatchArgs, PassResult, register_pass
from chop.passes.graph.transforms.calibration_limits import Magnitudes, limit
from chop.statistics import Profile
from chop.statistics.fingerprint import check_same_model

logger = logging.getLogger(__name__)
Observed = defaultdict[int, defaultdict[str, Magnitudes]]
"""Magnitudes by quantised layer or call (its id) and operand."""


@dataclass(frozen=True, kw_only=True)
class CalibrateArgs(BatchArgs):
    """Arguments of `calibrate`."""

    profile: Path | Profile | None = None
    """A profile of the float model, or its file, instead of batches to run."""
    num_batches: int = 16
    """The largest number of batches to run."""
    method: CalibrationMethod = "min_max"
    """How the limit of a format is chosen: largest magnitude, a percentile, least squared error or divergence."""
    percentile: float = 99.9
    """For method `percentile`: the percentage of the magnitudes that do not saturate."""

    def __post_init__(self) -> None:
        if self.input_generator is None and self.profile is None:
            raise ValueError("either 'input_generator' (batches to run) or 'profile' is required")
        if not 0 < self.percentile <= 100:
            raise ValueError(f"'percentile' must be above 0 and at most 100, got {self.percentile}")
        if self.num_batches < 1:
            raise ValueError(f"'num_batches' must be at least 1, got {self.num_batches}")


@register_pass("calibrate", kind="transform", keeps_weights=True)
def calibrate_transform_pass(graph: MaseGraph, args: CalibrateArgs) -> PassResult:
    """Set the fraction bits, or the fixed scales, of quantised operands from their values on data.

    The network runs in float on the batches; with a profile it does not run at all. `info["chosen"]` has, for each
    node and operand, the limit that was found and the parameters that follow from it.
    """
    metas = [meta for meta in graph.annotated_metas() if meta.quantized is not None]
    observed: Observed = defaultdict(lambda: defaultdict(Magnitudes))
    if args.profile is None:
        observer, num_batches = _Observer(graph.model, observed), 0
        with undisturbed(graph.model), ProgressBar("calibrating", args.num_batches) as progress:
            for batch in itertools.islice(args.input_generator or (), args.num_batches):
                observer.run(*bind_inputs(graph, batch))
                num_batches += 1
                progress.step()
        if num_batches == 0:
            raise ValueError("calibrate_transform_pass: input_generator yields no batches")
    else:
        profile = Profile.load(args.profile) if isinstance(args.profile, Path) else args.profile
        check_same_model(profile.fingerprints, metas)
        _look_up(profile, metas, observed, args.method)
    chosen: dict[str, dict[str, dict[str, Any]]] = {}
    for meta in metas:
        quantized = meta.quantized
        assert quantized is not None, "only quantised nodes are in the list"
        chosen[meta.node.name] = _calibrate(meta, quantized, observed[id(quantized)], args)
    return graph, {"chosen": chosen}


def _look_up(profile: Profile, metas: list[NodeMeta], observed: Observed, method: CalibrationMethod) -> None:
    """Take the magnitudes of activations from a profile, and those of parameters from the layers."""
    for meta in metas:
        quantized = meta.quantized
        assert quantized is not None, "only quantised nodes are in the list"
        for name, tensor in (*meta.args.items(), *meta.results.items()):
            if name not in quantized.formats or not tensor.dtype.is_floating_point:
                continue
            if tensor.is_parameter:
                if (parameter := meta.value(name)) is not None:
                    observed[id(quantized)][name].update(parameter)
                continue
            collection = profile.find(meta.node.name, name)
            try:
                observed[id(quantized)][name].merge(Magnitudes.of_profile(collection, method))
            except ValueError as error:
                raise ValueError(f"'{name}' of node '{meta.node.name}': {error}") from error


class _Observer(FloatInterpreter):
    """An interpreter that computes in float and collects the magnitudes of the operands that are quantised."""

    def __init__(self, model: fx.GraphModule, observed: Observed) -> None:
        super().__init__(model)
        self.observed = observed
        for layer in model.modules():
            if isinstance(layer, QuantizedLayer):
                for name, parameter in layer.op.parameters_of(layer).items():
                    observed[id(layer)][name].update(parameter)

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meta: NodeMeta = node.meta["mase"]
        if meta.quantized is not None:
            for name, _, value in meta.quantized.op.bound(args, kwargs):
                if isinstance(value, Tensor) and value.is_floating_point():
                    self.observed[id(meta.quantized)][name].update(value)

    def after(self, node: fx.Node, result: Any) -> None:
        quantized = node.meta["mase"].quantized
        if quantized is not None and "data_out_0" in quantized.formats:
            for tensor in tensors_in(result)[:1]:
                self.observed[id(quantized)]["data_out_0"].update(tensor)


def _calibrate(
    meta: NodeMeta,
    quantized: QuantizedLayer | QuantizedCall,
    observed: Mapping[str, Magnitudes],
    args: CalibrateArgs,
) -> dict[str, dict[str, Any]]:
    """Set new formats and scales of a node, and return them."""
    formats = dict(quantized.formats)
    scales: dict[str, float] = {}
    chosen: dict[str, dict[str, Any]] = {}
    for name, magnitudes in observed.items():
        if name in formats:
            reach = limit(magnitudes, formats[name], args.method, args.percentile)
            fitted, scale = formats[name].fitted(reach), formats[name].scale_for(reach)
            if scale is not None:
                scales[name] = scale
                chosen[name] = {"limit": reach, "scale": scale}
            elif fitted is not formats[name]:
                chosen[name] = {"limit": reach, "precision": fitted.precision}
            else:
                continue  # the format has no parameter to choose
            formats[name] = fitted
            logger.info("calibrate '%s': %s %s", meta.node.name, name, chosen[name])
    _set_formats(meta, formats, scales)
    return chosen


def _set_formats(meta: NodeMeta, formats: Mapping[str, Format], scales: Mapping[str, float]) -> None:
    """Set the formats of a quantised node, of the same kinds as before, and its new scales."""
    quantized = meta.quantized
    if isinstance(quantized, QuantizedLayer):
        quantized.formats = dict(formats)
        for name, scale in scales.items():
            quantized.fix_scale(name, scale)
    elif isinstance(quantized, QuantizedCall):
        for name, learned in quantized.learned.items():
            if learned is not None and name in scales:
                learned.data.fill_(scales[name])
        fixed = {name: scale for name, scale in scales.items() if name not in quantized.learned}
        meta.node.target = replace(quantized, formats=formats, scales={**quantized.scales, **fixed})
    meta.note_formats()
