"""Quantised layers and calls: the only component that combines formats, ops and roles.

The class of every layer in every format can be imported by its name: `LinearInteger`, `Conv2dBlockFP`.
"""

from chop.nn.quantized.call import QuantizedCall
from chop.nn.quantized.config import ROLES, UNSET, QuantConfig
from chop.nn.quantized.layer import QuantizedLayer, plain_layer
from chop.nn.quantized.layer_classes import compile_rounding, layer_class_by_name, quantize_layer
from chop.nn.quantized.presets import PRESETS, FormatSpec, Preset, register_preset
from chop.nn.quantized.rounded_parameters import forget_rounded


def __getattr__(name: str) -> type[QuantizedLayer]:
    found = layer_class_by_name(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


__all__ = [
    "PRESETS",
    "ROLES",
    "UNSET",
    "FormatSpec",
    "Preset",
    "QuantConfig",
    "QuantizedCall",
    "QuantizedLayer",
    "compile_rounding",
    "forget_rounded",
    "plain_layer",
    "quantize_layer",
    "register_preset",
]
