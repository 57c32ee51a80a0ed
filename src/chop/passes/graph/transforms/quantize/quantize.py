"""Give operands of chosen nodes a number format."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from torch import fx, nn

from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.in_place import read_result_instead, writes_in_place
from chop.nn.quantized import QuantConfig, QuantizedCall, QuantizedLayer
from chop.options import read_options
from chop.passes.base import PassResult, register_pass
from chop.passes.quantization.replacement import formats_of, replacement
from chop.passes.quantization.selection import By, ByNode

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class QuantizeArgs(ByNode[QuantConfig]):
    """By what nodes are chosen, and the config of each choice; None leaves a node alone."""

    @classmethod
    def from_pass_args(cls, pass_args: Mapping[str, Any] | None, where: str) -> Self:
        """Read `{"by": ..., "default": {"config": ...}, "linear": {"config": ...}, ...}`."""
        if pass_args is not None and not isinstance(pass_args, Mapping):
            raise ValueError(f"{where}: must be a dict such as {{'by': 'type', ...}}, got {pass_args!r}")
        given = dict(pass_args or {})
        options = read_options(_By, {key: given[key] for key in given.keys() & {"by"}}, where)
        read = {
            key: QuantConfig.read(_config(entry, f"{where}: '{key}'"), f"{where}: '{key}'")
            for key, entry in given.items()
            if key != "by"
        }
        default = read.pop("default", None)
        return cls(options.by, read, default)


@dataclass(frozen=True)
class _By:
    by: By


def _config(entry: object, where: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping) or set(entry) != {"config"} or not isinstance(entry["config"], Mapping):
        raise ValueError(f"{where} must be a dict {{'config': {{'name': ..., ...}}}}, got {entry!r}")
    return cast("Mapping[str, Any]", entry["config"])


@register_pass("quantize", kind="transform")
def quantize_transform_pass(graph: MaseGraph, args: QuantizeArgs) -> PassResult:
    """Rounds the operands of the chosen nodes to the formats of their configs, wherever they are used.

    Node names, their number and the state dict stay. `info["quantized"]` lists the nodes that were changed,
    `info["chosen"]` the precisions that data chose where a config left it to them (`frac_width = "auto"`).
    """
    metas = graph.annotated_metas()
    plan = chosen_configs(args, metas)
    layers = _layers(metas)
    made: dict[nn.Module | None, QuantizedLayer] = {}
    chosen: dict[str, dict[str, list[int | float]]] = {}
    for meta in metas:
        if meta.node in plan:
            layer = layers.get(meta.node)
            formats, chosen[meta.node.name] = formats_of(meta, plan[meta.node])
            if "data_in_0" in formats and writes_in_place(meta.node, layer):
                read_result_instead(meta.node)
            _put(meta, made.get(layer) or replacement(meta, formats, plan[meta.node].name), layer, made)
    _note_borrowed(plan, metas)
    return graph, {"quantized": [node.name for node in plan], "chosen": {n: c for n, c in chosen.items() if c}}


def chosen_configs(args: QuantizeArgs, metas: list[NodeMeta]) -> dict[fx.Node, QuantConfig]:
    """The config of each node that is to be quantised; a choice that means nothing here is an error."""
    args.check(metas, "quantize")
    plan = {
        meta.node: config
        for meta in metas
        if meta.quantizable and (config := args.choose(meta.mase_op, meta.node.name))
    }
    _check_shared_layers(plan, _layers(metas))
    return plan


def _layers(metas: list[NodeMeta]) -> dict[fx.Node, nn.Module]:
    return {meta.node: layer for meta in metas if (layer := meta.module) is not None}


def _check_shared_layers(plan: Mapping[fx.Node, QuantConfig], layers: Mapping[fx.Node, nn.Module]) -> None:
    """A layer that is called at several nodes is one layer: it cannot be quantised in two ways."""
    first: dict[nn.Module, fx.Node] = {}
    for node, layer in layers.items():
        other = first.setdefault(layer, node)
        if plan.get(other) != plan.get(node):
            raise ValueError(
                f"nodes '{other.name}' and '{node.name}' call the same layer '{node.target}' "
                "but have different configs; give both the same"
            )


def _put(
    meta: NodeMeta,
    new: QuantizedLayer | QuantizedCall,
    layer: nn.Module | None,
    made: dict[nn.Module | None, QuantizedLayer],
) -> None:
    """Put a quantised layer or call in the place of a node. `made` holds the quantised layers by what they were."""
    node = meta.node
    if isinstance(new, QuantizedLayer):
        made[layer] = new
        parent, _, name = str(node.target).rpartition(".")
        setattr(meta.model.get_submodule(parent), name, new)
    else:
        node.target, node.op = new, "call_function"
    meta.note_formats()


def _note_borrowed(plan: Mapping[fx.Node, QuantConfig], metas: list[NodeMeta]) -> None:
    """Say once for each config which keys it lacked, and for which ops."""
    for config in {id(config): config for config in plan.values()}.values():
        served = [meta for meta in metas if plan.get(meta.node) is config]
        roles = {operand.role for meta in served for operand in meta.operands.values() if operand.role is not None}
        ops = dict.fromkeys(meta.mase_op for meta in served)
        config.note_borrowed({*roles}, f"quantize {', '.join(ops)}")
