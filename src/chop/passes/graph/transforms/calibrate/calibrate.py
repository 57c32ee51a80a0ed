"""Choose fraction bits and scales from data."""

from __future__ import annotations

import itertools
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, fx, nn

from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import Runner, bind_inputs, tensors_in, undisturbed
from chop.nn.quantized import QuantizedCall, QuantizedLayer, plain_layer
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.calibrate.limits import Magnitudes, Method, limit
from chop.statistics import Collection, Profile

logger = logging.getLogger(__name__)
Seen = defaultdict[int, defaultdict[str, Magnitudes]]
"""Magnitudes by quantised layer or call (its id) and operand."""


@dataclass(frozen=True)
class CalibrateArgs:
    input_generator: Iterable[Mapping[str, Any]] | None = None
    """Batches by argument name, such as an InputGenerator."""
    profile: Path | Profile | None = None
    """What `profile_statistics` found on the float model, or the file it was saved in: no batches are run then."""
    num_batches: int = 16
    method: Method = "min_max"
    percentile: float = 99.9
    """With `percentile`: the share of magnitudes, in percent, that are not to saturate."""

    def __post_init__(self) -> None:
        if self.input_generator is None and self.profile is None:
            raise ValueError("it needs 'input_generator', for batches to run, or 'profile'")
        if not 0 < self.percentile <= 100:
            raise ValueError(f"'percentile' must be above 0 and at most 100, got {self.percentile}")
        if self.num_batches < 1:
            raise ValueError(f"'num_batches' must be 1 or more, got {self.num_batches}")


@register_pass("calibrate", kind="transform")
def calibrate_transform_pass(graph: MaseGraph, args: CalibrateArgs) -> PassResult:
    """Sets the fraction bits, or the fixed scales, of quantised operands from what they hold on data.

    The network runs in float on the batches, or is not run at all if a profile tells what they hold.
    `info["chosen"]` says for each node and operand the limit that was found and the parameters that follow
    from it.
    """
    metas = [meta for meta in graph.annotated_metas() if meta.quantized is not None]
    seen: Seen = defaultdict(lambda: defaultdict(Magnitudes))
    if args.profile is None:
        _run(graph, seen, args)
    else:
        profile = Profile.load(args.profile) if isinstance(args.profile, Path) else args.profile
        _look_up(profile, metas, seen, args.method)
    chosen: dict[str, dict[str, dict[str, Any]]] = {}
    for meta in metas:
        quantized = meta.quantized
        assert quantized is not None, "only quantised nodes are in the list"
        chosen[meta.node.name] = _calibrate(meta, quantized, seen[id(quantized)], args)
    return graph, {"chosen": chosen}


def _run(graph: MaseGraph, seen: Seen, args: CalibrateArgs) -> None:
    assert args.input_generator is not None, "checked when the arguments were read"
    observer = _Observer(graph.model, seen)
    num_batches = 0
    with undisturbed(graph.model):
        for batch in itertools.islice(args.input_generator, args.num_batches):
            observer.run(*bind_inputs(graph, batch))
            num_batches += 1
    if num_batches == 0:
        raise ValueError("calibrate_transform_pass: input_generator gives no batches")


def _look_up(profile: Profile, metas: list[NodeMeta], seen: Seen, method: Method) -> None:
    """The same from a profile; what layers hold themselves is read from there."""
    for meta in metas:
        quantized = meta.quantized
        assert quantized is not None, "only quantised nodes are in the list"
        for name, tensor in (*meta.args.items(), *meta.results.items()):
            if name not in quantized.formats or not tensor.dtype.is_floating_point:
                continue
            if not tensor.held:
                found = _named(profile.find(meta.node.name, name), meta.node.name, name, method)
                seen[id(quantized)][name].merge(found)
            elif (parameter := meta.value(name)) is not None:
                seen[id(quantized)][name].update(parameter)


def _named(collection: Collection, node: str, entry: str, method: Method) -> Magnitudes:
    try:
        return Magnitudes.of_profile(collection, method)
    except ValueError as error:
        raise ValueError(f"'{entry}' of node '{node}': {error}") from error


class _Observer(Runner):
    """Runs the network as if nothing were quantised, and looks at what would be."""

    def __init__(self, model: fx.GraphModule, seen: Seen) -> None:
        super().__init__(model)
        self.seen = seen
        self.plain: dict[str, nn.Module] = {}
        for path, layer in model.named_modules():
            if isinstance(layer, QuantizedLayer):
                self.plain[path] = plain_layer(layer)
                for name in layer.held:
                    parameter = getattr(layer, name)
                    if parameter is not None:
                        seen[id(layer)][name].update(parameter)

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meta: NodeMeta = node.meta["mase"]
        if meta.quantized is not None:
            for name, _, value in meta.quantized.op.bound(args, kwargs):
                if isinstance(value, Tensor) and value.is_floating_point():
                    self.seen[id(meta.quantized)][name].update(value)

    def after(self, node: fx.Node, result: Any) -> None:
        quantized = node.meta["mase"].quantized
        if quantized is not None and "data_out_0" in quantized.formats:
            for tensor in tensors_in(result)[:1]:
                self.seen[id(quantized)]["data_out_0"].update(tensor)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self.plain.get(target)
        return super().call_module(target, args, kwargs) if layer is None else layer(*args, **kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = target.function if isinstance(target, QuantizedCall) else target
        return super().call_function(function, args, kwargs)


def _calibrate(
    meta: NodeMeta, quantized: QuantizedLayer | QuantizedCall, seen: Mapping[str, Magnitudes], args: CalibrateArgs
) -> dict[str, dict[str, Any]]:
    """New formats and scales for a node, and what they are."""
    formats = dict(quantized.formats)
    chosen: dict[str, dict[str, Any]] = {}
    for name, magnitudes in seen.items():
        if name in formats:
            reach = limit(magnitudes, formats[name], args.method, args.percentile)
            fitted, scale = formats[name].fitted(reach), formats[name].scale_for(reach)
            if scale is not None and isinstance(quantized, QuantizedLayer):
                quantized.fix_scale(name, scale)
                chosen[name] = {"limit": reach, "scale": scale}
            elif fitted is not formats[name]:
                chosen[name] = {"limit": reach, "precision": fitted.precision}
            else:
                continue  # a function has no place for a scale, and other formats have nothing to choose
            formats[name] = fitted
            logger.info("calibrate '%s': %s %s", meta.node.name, name, chosen[name])
    put_formats(meta, formats)
    return chosen


def put_formats(meta: NodeMeta, formats: Mapping[str, Format]) -> None:
    """Other formats of the same kinds for the operands of a quantised node."""
    quantized = meta.quantized
    if isinstance(quantized, QuantizedLayer):
        quantized.formats = dict(formats)
    elif isinstance(quantized, QuantizedCall):
        meta.node.target = QuantizedCall(quantized.target, quantized.op_name, formats, quantized.format_name)
    meta.note_formats()
