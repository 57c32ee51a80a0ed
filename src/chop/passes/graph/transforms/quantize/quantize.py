"""Give operands of chosen nodes a number format."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from torch import fx, nn

from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.in_place import read_result_instead, writes_in_place
from chop.nn.quantized import QuantConfig, QuantizedCall, QuantizedLayer
from chop.ops import OPS
from chop.options import read_options
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.quantize.replacement import formats_of, replacement
from chop.registry import closest

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class QuantizeArgs:
    """By what nodes are chosen, and the config of each choice; None leaves a node alone."""

    by: Literal["type", "name", "regex_name"]
    configs: Mapping[str, QuantConfig | None] = field(default_factory=dict)
    default: QuantConfig | None = None

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

    def choose(self, op: str, name: str) -> QuantConfig | None:
        """The config for an op at a node or path. Of several patterns that match its name, the first one counts."""
        if self.by == "regex_name":
            matching = [config for pattern, config in self.configs.items() if matches(pattern, name)]
            return matching[0] if matching else self.default
        key = op if self.by == "type" else name
        return self.configs[key] if key in self.configs else self.default


@dataclass(frozen=True)
class _By:
    by: Literal["type", "name", "regex_name"]


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
    _check_choices(args, metas)
    plan = {
        meta.node: config
        for meta in metas
        if meta.quantizable and (config := args.choose(meta.mase_op, meta.node.name))
    }
    layers = {meta.node: layer for meta in metas if (layer := meta.module) is not None}
    _check_shared_layers(plan, layers)
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


def _check_choices(args: QuantizeArgs, metas: list[NodeMeta]) -> None:
    """Every choice must mean something here: an op that exists, a node that can be quantised."""
    nodes = {meta.node.name: meta for meta in metas}
    can_be = [name for name, meta in nodes.items() if meta.quantizable]
    for key in args.configs:
        if args.by == "type" and not (key in OPS and OPS[key].quantizable):
            known = [name for name, op in OPS.items() if op.quantizable]
            raise ValueError(f"quantize by type: no op '{key}' can be quantised; {closest(key, known)}")
        if args.by == "name" and key not in can_be:
            what = f"node '{key}' is {_describe(nodes[key])}" if key in nodes else f"there is no node '{key}'"
            raise ValueError(f"quantize by name: {what}, nothing to quantise; {closest(key, can_be)}")
        if args.by == "regex_name" and not any(matches(key, name) for name in can_be):
            raise ValueError(
                f"quantize by regex_name: '{key}' matches no node that can be quantised; {closest(key, can_be)}"
            )


def _describe(meta: NodeMeta) -> str:
    computes = meta.op is not None and meta.op.quantizable
    return f"a {meta.mase_op} without floating-point operands" if computes else f"a {meta.mase_op}"


def matches(pattern: str, name: str) -> bool:
    """Whether a user's pattern is that of a whole name."""
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise ValueError(f"quantize by regex_name: '{pattern}' is no regular expression: {error}") from None


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
