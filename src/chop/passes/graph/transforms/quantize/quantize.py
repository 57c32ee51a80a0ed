"""Quantise the operands of chosen nodes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from torch import fx

from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.learned_scales import set_call
from chop.nn.quantized import QuantConfig, QuantizedLayer, compile_rounding
from chop.passes.base import PassResult, register_pass
from chop.passes.quantization.poor_fit import warn_about_poor_fits
from chop.passes.quantization.replacement import make_replacements
from chop.passes.quantization.selection import QuantizeArgs, chosen_configs

__all__ = ["QuantizeArgs", "quantize_transform_pass"]
logger = logging.getLogger(__name__)


@register_pass("quantize", kind="transform", prints=True, keeps_weights=True)
def quantize_transform_pass(graph: MaseGraph, args: QuantizeArgs) -> PassResult:
    """Round the operands of the chosen nodes to the formats of their configs.

    Nodes, their names and the keys of the state dict stay the same. `info["quantized"]` lists the nodes that were
    changed, `info["chosen"]` the precisions that were chosen from data, where a config says `frac_width = "auto"`.
    """
    metas = graph.annotated_metas()
    configs = chosen_configs(args, metas)
    replacements, precisions = make_replacements(configs, metas)
    warn_about_poor_fits(replacements, {meta.node: meta for meta in metas})
    for meta in metas:
        if meta.node in replacements:
            new = replacements[meta.node]
            if isinstance(new, QuantizedLayer):
                meta.model.set_submodule(str(meta.node.target), new)
            else:
                set_call(meta.node, new)
            meta.note_formats()
            for name in precisions[meta.node]:
                logger.info("quantize '%s': %s is %s", meta.node.name, name, new.formats[name])
    if args.compile:
        compile_rounding(graph.model)
    _log_inherited(configs, metas)
    chosen = {node.name: each for node, each in precisions.items() if each}
    return graph, {"quantized": [node.name for node in configs], "chosen": chosen}


def _log_inherited(configs: Mapping[fx.Node, QuantConfig], metas: Sequence[NodeMeta]) -> None:
    """Log once per config which keys it lacks, and for which ops."""
    for config in {id(config): config for config in configs.values()}.values():
        served = [meta for meta in metas if configs.get(meta.node) is config]
        roles = {operand.role for meta in served for operand in meta.operands.values() if operand.role is not None}
        ops = dict.fromkeys(meta.mase_op for meta in served)
        config.log_inherited({*roles}, f"quantize {', '.join(ops)}")
