"""Quantised copies of a model."""

from __future__ import annotations

import copy
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal

from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.ir.graph.annotate import annotate, init_metadata
from chop.ir.graph.capture.errors import CaptureError, ModelFailsError
from chop.ir.graph.interpreter import undisturbed
from chop.nn.quantized import PRESETS, FormatSpec, QuantConfig, QuantizedLayer
from chop.ops import Op, op_of_module
from chop.passes.graph import calibrate_transform_pass, quantize_transform_pass
from chop.passes.module import quantize_module_transform_pass
from chop.passes.quantization.selection import QuantizeArgs
from chop.quantizing.batches import Batches

logger = logging.getLogger(__name__)

Style = Literal["graph", "module"]
Inputs = Mapping[str, Any]
Largest = defaultdict[str, defaultdict[str, float]]
NUM_CALIBRATION_BATCHES = 16


def quantize(
    model: nn.Module,
    spec: FormatSpec,
    data: Any = None,
    *,
    style: Style = "graph",
    calibrate: bool | None = None,
) -> nn.Module:
    """Return a quantised copy of `model`, which stays as it was; see `chop.quantize`."""
    if style not in ("graph", "module"):
        raise ValueError(f"chop.quantize: style must be 'graph' or 'module', got '{style}'")
    args = _read_spec(spec)
    if calibrate is None:
        calibrate = isinstance(spec, str) and spec in PRESETS and PRESETS[spec].calibrate
    if calibrate and data is None:
        raise ValueError(f"chop.quantize: {spec} fixes scales of activations on data: give batches as 'data'")
    batches = None if data is None else Batches.of(model, data)
    copied = copy.deepcopy(model)
    first = None if batches is None else batches.first()
    seen = list(islice(batches.inputs(), NUM_CALIBRATION_BATCHES)) if calibrate and batches is not None else []
    graph = captured(copied, first) if style == "graph" and first is not None else None
    if graph is None or first is None:
        changed = _quantize_layers(copied, args, seen)
    else:
        changed = _quantize_graph(graph, args, first, seen)
    if not changed:
        raise ValueError(f"chop.quantize: {type(model).__name__} has no layer that '{spec}' is for")
    return copied if graph is None else graph.model


def _read_spec(spec: Any) -> QuantizeArgs:
    """Return the format of each op; a single config is for all layers."""
    if isinstance(spec, Mapping) and isinstance(spec.get("name"), str):
        return QuantizeArgs("type", layers=QuantConfig.read(spec, "chop.quantize"))
    return QuantizeArgs.from_pass_args(spec, "chop.quantize")


def captured(model: nn.Module, inputs: Inputs) -> MaseGraph | None:
    """Return the graph of a model, or None, with a warning that says why, if it cannot be captured."""
    try:
        graph = MaseGraph(model, example_inputs=inputs)
    except ModelFailsError:
        raise  # on these inputs it does not run at all
    except CaptureError as error:
        reason = str(error).partition(". ")[0]
        logger.warning(
            "%s cannot be captured as a graph, so each of its layers is replaced by a quantised one instead: %s",
            *(type(model).__name__, reason),
        )
        return None
    init_metadata(graph)
    return graph


def _quantize_graph(graph: MaseGraph, args: QuantizeArgs, first: Inputs, seen: Sequence[Inputs]) -> list[str]:
    """Quantise nodes, with scales fixed on the batches that were `seen`, and return their names."""
    configs = [config for config in (*args.configs.values(), args.layers, args.default) if config is not None]
    formats = [number_format for config in configs for number_format in config.formats.values()]
    fits_data = any(number_format.needs_fit or number_format.has_learned_scale for number_format in formats)
    annotate(graph, first, keep_values=False, keep_ranges=fits_data)
    changed: list[str] = quantize_transform_pass(graph, args)[1]["quantized"]
    if seen:
        calibrate_transform_pass(graph, {"input_generator": seen, "num_batches": len(seen)})
    return changed


def _quantize_layers(model: nn.Module, args: QuantizeArgs, seen: Sequence[Inputs]) -> list[str]:
    """Replace layers in place, with scales fixed on the batches that were `seen`, and return their paths."""
    largest = _largest_inputs(model, seen)
    changed: list[str] = quantize_module_transform_pass(model, args)[1]["quantized"]
    for path in changed:
        layer = model.get_submodule(path)
        assert isinstance(layer, QuantizedLayer), "the pass has replaced it"
        for name, magnitude in largest[path].items():
            scale = layer.formats[name].scale_for(magnitude) if name in layer.formats else None
            if scale is not None:
                layer.fix_scale(name, scale)
    return changed


def _largest_inputs(model: nn.Module, seen: Sequence[Inputs]) -> Largest:
    """Return the largest magnitude of each input of each layer, by path and operand."""
    largest: Largest = defaultdict(lambda: defaultdict(float))

    def note(path: str, op: Op, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, _operand, value in op.bound(args, kwargs):
            if isinstance(value, Tensor) and value.is_floating_point() and value.numel():
                largest[path][name] = max(largest[path][name], value.abs().max().item())

    hooks = [
        module.register_forward_pre_hook(partial(note, path, op), with_kwargs=True)
        for path, module in (model.named_modules(remove_duplicate=False) if seen else ())
        if (op := op_of_module(type(module))) is not None
    ]
    with undisturbed(model):
        for inputs in seen:
            model(**inputs)
    for hook in hooks:
        hook.remove()
    return largest
