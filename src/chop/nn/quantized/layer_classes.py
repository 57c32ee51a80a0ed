"""The classes of quantised layers, such as LinearInteger, and layers of these classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, fx, nn

from chop.formats import FORMATS, Format
from chop.nn.quantized.call import QuantizedCall
from chop.nn.quantized.layer import FunctionalLayer, QuantizedLayer, copied_state, plain_layer
from chop.nn.quantized.rounded_parameters import without_kept
from chop.ops import OPS, op_of_module


def quantize_layer(
    layer: nn.Module, formats: Mapping[str, Format], label: str, values: Mapping[str, Tensor | None] | None = None
) -> QuantizedLayer:
    """Return a quantised layer that shares the parameters of `layer`; `label` is the end of its class name.

    If `layer` is quantised already, its formats are replaced. `values` are values of operands, from which
    learned scales are initialised.
    """
    plain = plain_layer(layer) if isinstance(layer, QuantizedLayer) else layer
    new = _empty_layer(type(plain), label)
    new.__dict__.update(copied_state(plain))
    new.formats = dict(formats)
    for name, number_format in formats.items():
        if number_format.has_learned_scale:
            value = new._parameter(name) if name in new.parameter_names else (values or {}).get(name)
            new.start_scale(name, value)
    return new


def compile_rounding(model: nn.Module) -> None:
    """Let torch.compile make the functions that round, in all quantised layers and calls of a model."""
    for module in model.modules():
        if isinstance(module, QuantizedLayer):
            with_compiled_rounding(module)
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:
                if isinstance(node.target, QuantizedCall):
                    node.target = with_compiled_rounding(node.target)
            module.recompile()


def with_compiled_rounding(quantized: QuantizedLayer | QuantizedCall) -> QuantizedLayer | QuantizedCall:
    """Return the layer itself, or another call, whose rounding torch.compile makes."""
    if isinstance(quantized, QuantizedCall):
        return replace(quantized, is_compiled=True)
    quantized.is_compiled = True
    return quantized


_classes: dict[tuple[type[nn.Module], str], type[QuantizedLayer]] = {}


def layer_class(base: type[nn.Module], label: str) -> type[QuantizedLayer]:
    """Return the class `{base}{label}`, such as LinearInteger; always the same object."""
    if (base, label) in _classes:
        return _classes[base, label]
    op = op_of_module(base)
    if op is None or not op.quantizable:
        raise ValueError(f"{base.__name__} is not a quantisable layer of the op table")
    members = {
        "base_class": base,
        "op": op,
        "__module__": __package__,
        "__doc__": f"{base.__name__}, quantised.",
        "__reduce_ex__": _reduced,
    }
    several = op.composite or len(op.operands) > 1
    kind = FunctionalLayer if op.compute is None and several else QuantizedLayer
    _classes[base, label] = type(f"{base.__name__}{label}", (kind, base), members)
    return _classes[base, label]


def layer_class_by_name(name: str) -> type[QuantizedLayer] | None:
    """Return the class called `name`, if that is a layer of the op table followed by a format."""
    bases = {module.__name__: module for op in OPS.values() for module in op.modules if op.quantizable}
    for number_format in FORMATS.values():
        base = name.removesuffix(number_format.__name__)
        if base != name and base in bases:
            return layer_class(bases[base], number_format.__name__)
    return None


def _empty_layer(base: type[nn.Module], label: str) -> QuantizedLayer:
    cls = layer_class(base, label)
    return cls.__new__(cls)


def _reduced(layer: QuantizedLayer, protocol: object) -> tuple[Any, ...]:
    """Return what pickle and copy need: these classes are not attributes of a module."""
    return _empty_layer, (layer.base_class, layer.format_label), without_kept(layer.__getstate__())  # type: ignore[no-untyped-call]
