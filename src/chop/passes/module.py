"""Quantise the layers of a module that need not be traced."""

from __future__ import annotations

from typing import Any

from torch import nn

from chop.formats import FORMATS
from chop.ir.graph.shared_layers import group_by_layer
from chop.nn.quantized import QuantConfig, QuantizedLayer, compile_rounding, quantize_layer
from chop.ops import Op, op_of_module
from chop.passes.quantization.selection import QuantizeArgs, matches
from chop.registry import closest

_OPAQUE = (nn.MultiheadAttention, nn.TransformerEncoderLayer)
"""Modules that compute with their layers' parameters without calling the layers."""
_CONTAINERS = (nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.TransformerDecoder, nn.Transformer)
"""Composite layers that call all of their layers, which are quantised one by one."""


def quantize_module_transform_pass(model: nn.Module, pass_args: Any = None) -> tuple[nn.Module, dict[str, Any]]:
    """Quantise the operands of the chosen layers in place, without tracing; `pass_args` as for the graph pass.

    Layers are named by paths such as `encoder.0.linear`. Functions inside a forward are not quantised. torch's own
    attention and encoder layers are quantised as one layer. `info["quantized"]` lists the layers that were changed.
    """
    args = pass_args
    if not isinstance(pass_args, QuantizeArgs):
        args = QuantizeArgs.from_pass_args(pass_args, "quantize_module_transform_pass")
    layers = _layers(model)
    known = {op.name for _, op in layers.values()} if args.by == "type" else set(layers)
    for key in args.configs:
        found = key in known if args.by != "regex_name" else any(matches(key, path) for path in known)
        if not found:
            raise ValueError(f"quantize by {args.by}: the model has no layer '{key}'; {closest(key, known)}")
    configs = {path: config for path, (_, op) in layers.items() if (config := args.choose(op.name, path))}
    made: dict[str, QuantizedLayer] = {}
    for first, *others in group_by_layer((path, layer) for path, (layer, _) in layers.items()):
        for other in others:
            if configs.get(first) != configs.get(other):
                raise ValueError(f"'{first}' and '{other}' are the same layer but have different configs")
        if first in configs:
            made |= dict.fromkeys((first, *others), _quantized(first, *layers[first], configs[first]))
    for path, new in made.items():
        model.set_submodule(path, new)
    if args.compile:
        compile_rounding(model)
    return model, {"quantized": list(configs)}


def _layers(model: nn.Module) -> dict[str, tuple[nn.Module, Op]]:
    """Return the layers that can be quantised by path; a layer that is registered twice has two paths."""
    found: dict[str, tuple[nn.Module, Op]] = {}
    opaque = [f"{path}." for path, module in model.named_modules() if isinstance(module, _OPAQUE)]
    for path, layer in model.named_modules(remove_duplicate=False):
        op = layer.op if isinstance(layer, QuantizedLayer) else op_of_module(type(layer))
        if op is None or not op.quantizable or isinstance(layer, _CONTAINERS) or path.startswith(tuple(opaque)):
            continue
        if not path:
            raise ValueError(
                f"the model is a single layer ({type(layer).__name__}); put it into an nn.Sequential first"
            )
        found[path] = (layer, op)
    return found


def _quantized(path: str, layer: nn.Module, op: Op, config: QuantConfig) -> QuantizedLayer:
    parameters = op.parameters_of(layer)
    inputs = [operand.name for operand in op.operands if operand.name not in op.parameters]
    present = {name: operand for name in (*inputs, *parameters) if (operand := op.operand(name)) is not None}
    formats = config.for_op(op, present)
    for name, number_format in formats.items():
        parameter = parameters.get(name)
        if number_format.needs_fit and parameter is not None:
            formats[name] = number_format.fitted(parameter.abs().max().item())
        elif number_format.needs_fit or (number_format.has_learned_scale and parameter is None):
            raise ValueError(f"'{path}': the format of '{name}' depends on data, which needs a graph")
    return quantize_layer(layer, formats, FORMATS[config.name].__name__)
