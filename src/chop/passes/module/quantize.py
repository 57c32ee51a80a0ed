"""Quantise the layers of any module, traced or not."""

from __future__ import annotations

from typing import Any

from torch import nn

from chop.formats import FORMATS
from chop.nn.quantized import QuantConfig, QuantizedLayer, quantize_layer
from chop.ops import Op, op_of_module
from chop.passes.graph.transforms.quantize.quantize import QuantizeArgs
from chop.passes.quantization.selection import matches
from chop.registry import closest

_OPAQUE = (nn.MultiheadAttention, nn.TransformerEncoderLayer)
"""Modules that compute with their layers' parameters without calling the layers."""


def quantize_module_transform_pass(model: nn.Module, pass_args: Any = None) -> tuple[nn.Module, dict[str, Any]]:
    """Rounds the operands of the chosen layers, in place, without tracing; the config is that of the graph pass.

    Names are paths such as `encoder.0.linear`. Functions inside a forward are not seen, nor what is inside of
    torch's own attention. `info["quantized"]` lists the layers that were changed.
    """
    args = QuantizeArgs.from_pass_args(pass_args, "quantize_module_transform_pass")
    layers = _layers(model)
    _check_choices(args, layers)
    plan = {path: config for path, (_, op) in layers.items() if (config := args.choose(op.name, path))}
    made: dict[nn.Module, QuantizedLayer] = {}
    for path, config in plan.items():
        layer, op = layers[path]
        for other in (each for each, (same, _) in layers.items() if same is layer):
            if plan.get(other) != config:
                raise ValueError(f"'{path}' and '{other}' are the same layer but have different configs")
        if layer not in made:
            made[layer] = _quantized(path, layer, op, config)
    for path in plan:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, made[layers[path][0]])
    return model, {"quantized": list(plan)}


def _layers(model: nn.Module) -> dict[str, tuple[nn.Module, Op]]:
    """The layers that can be quantised, by path; one that is registered twice has two."""
    found: dict[str, tuple[nn.Module, Op]] = {}
    opaque = [f"{path}." for path, module in model.named_modules() if isinstance(module, _OPAQUE)]
    for path, layer in model.named_modules(remove_duplicate=False):
        op = layer.op if isinstance(layer, QuantizedLayer) else op_of_module(type(layer))
        if op is None or not op.quantizable or path.startswith(tuple(opaque)):
            continue
        if not path:
            raise ValueError(f"the model is itself a {type(layer).__name__}; put it into an nn.Sequential first")
        found[path] = (layer, op)
    return found


def _check_choices(args: QuantizeArgs, layers: dict[str, tuple[nn.Module, Op]]) -> None:
    known = {op.name for _, op in layers.values()} if args.by == "type" else set(layers)
    for key in args.configs:
        found = key in known if args.by != "regex_name" else any(matches(key, path) for path in known)
        if not found:
            raise ValueError(f"quantize by {args.by}: the model has no layer '{key}'; {closest(key, known)}")


def _quantized(path: str, layer: nn.Module, op: Op, config: QuantConfig) -> QuantizedLayer:
    present = {o.name: o for o in op.operands if o not in op.parameters or getattr(layer, o.name) is not None}
    formats = config.for_op(op, present)
    for name, number_format in formats.items():
        parameter = getattr(layer, name) if name in [operand.name for operand in op.parameters] else None
        if number_format.needs_fit and parameter is not None:
            formats[name] = number_format.fitted(parameter.abs().max().item())
        elif number_format.needs_fit or (number_format.has_own_scale and parameter is None):
            raise ValueError(f"'{path}': the format of '{name}' is to be chosen from data, which needs a graph")
    return quantize_layer(layer, formats, FORMATS[config.name].__name__)
