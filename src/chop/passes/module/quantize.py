"""Quantise the layers of any module, traced or not."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from chop.formats import FORMATS
from chop.nn.quantized import QuantConfig, QuantizedLayer, quantize_layer
from chop.ops import Op, op_of_module
from chop.passes.graph.transforms.quantize.quantize import QuantizeArgs
from chop.registry import closest


def quantize_module_transform_pass(model: nn.Module, pass_args: Any = None) -> tuple[nn.Module, dict[str, Any]]:
    """Rounds the operands of the chosen layers, in place, without tracing; the config is that of the graph pass.

    Names are paths such as `encoder.0.linear`. Functions inside a forward are not seen. `info["quantized"]` lists
    the layers that were changed.
    """
    args = QuantizeArgs.from_pass_args(pass_args, "quantize_module_transform_pass")
    layers = {path: (layer, op) for path, layer in model.named_modules() if (op := _op(layer)) is not None}
    _check_choices(args, layers)
    made: dict[nn.Module, QuantizedLayer] = {}
    changed = []
    for path, (layer, op) in layers.items():
        config = _choose(args, path, op)
        if config is not None and path:
            made.setdefault(layer, _quantized(layer, op, config))
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, made[layer])
            changed.append(path)
    return model, {"quantized": changed}


def _op(layer: nn.Module) -> Op | None:
    op = layer.op if isinstance(layer, QuantizedLayer) else op_of_module(type(layer))
    return op if op is not None and op.quantizable else None


def _check_choices(args: QuantizeArgs, layers: dict[str, tuple[nn.Module, Op]]) -> None:
    known = {op.name for _, op in layers.values()} if args.by == "type" else set(layers)
    for key in args.configs:
        found = key in known if args.by != "regex_name" else any(re.fullmatch(key, path) for path in known)
        if not found:
            raise ValueError(f"quantize by {args.by}: the model has no layer '{key}'; {closest(key, known)}")


def _choose(args: QuantizeArgs, path: str, op: Op) -> QuantConfig | None:
    if args.by == "regex_name":
        matching = [config for pattern, config in args.configs.items() if re.fullmatch(pattern, path)]
        return matching[0] if matching else args.default
    key = op.name if args.by == "type" else path
    return args.configs[key] if key in args.configs else args.default


def _quantized(layer: nn.Module, op: Op, config: QuantConfig) -> QuantizedLayer:
    present = {o.name: o for o in op.operands if o not in op.parameters or getattr(layer, o.name) is not None}
    return quantize_layer(layer, config.for_op(op, present), FORMATS[config.name].__name__)
