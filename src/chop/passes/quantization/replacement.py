"""What stands in the place of a node once it is quantised; the graph is not touched here."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from chop.formats import FORMATS, Format
from chop.ir import NodeMeta
from chop.nn.quantized import QuantConfig, QuantizedCall, QuantizedLayer, quantize_layer

logger = logging.getLogger(__name__)


def formats_of(meta: NodeMeta, config: QuantConfig) -> tuple[dict[str, Format], dict[str, list[int | float]]]:
    """The formats of a node's operands, of its result if that is asked for and holds real numbers; and what of
    them data chose, by operand."""
    assert meta.op is not None, "only nodes of the op table are quantised"
    formats = config.for_op(meta.op, meta.operands)
    result = meta.results.get("data_out_0")
    if result is None or not result.dtype.is_floating_point:
        formats.pop("data_out_0", None)
    return formats, _fit(meta, formats)


def replacement(meta: NodeMeta, formats: Mapping[str, Format], label: str) -> QuantizedLayer | QuantizedCall:
    """A node's layer or function with its operands in `formats`; `label` is the format that names it."""
    node, layer = meta.node, meta.module
    assert meta.op is not None, "only nodes of the op table are quantised"
    if layer is not None:
        values = {name: meta.value(name) for name in formats}
        return quantize_layer(layer, formats, FORMATS[label].__name__, values)
    if any(number_format.has_own_scale for number_format in formats.values()):
        raise ValueError(f"node '{node.name}' is a function, which has no place for a learned scale")
    target = node.target.target if isinstance(node.target, QuantizedCall) else node.target
    assert callable(target) or isinstance(target, str), "a node of the op table calls a function or a method"
    return QuantizedCall(target, meta.op.name, formats, label)


def _fit(meta: NodeMeta, formats: dict[str, Format]) -> dict[str, list[int | float]]:
    """Replace formats that leave something to be chosen by ones fitted to the values of the annotating run."""
    chosen = {}
    for name, number_format in formats.items():
        if number_format.needs_fit:
            value = meta.value(name)
            if value is None:
                raise ValueError(
                    f"node '{meta.node.name}': the format of '{name}' is to be chosen from data, but the graph "
                    "keeps no values; run add_common_metadata_analysis_pass with add_value, or give all parameters"
                )
            formats[name] = number_format.fitted(value.abs().max().item() if value.numel() else 0.0)
            chosen[name] = formats[name].precision
            logger.info("quantize '%s': %s is %s", meta.node.name, name, formats[name])
    return chosen
