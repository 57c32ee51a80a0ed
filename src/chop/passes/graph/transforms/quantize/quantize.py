"""Give operands of chosen nodes a number format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from torch import fx

from chop.formats import FORMATS
from chop.ir import MaseGraph, NodeMeta
from chop.nn.quantized import QuantConfig, QuantizedCall, quantize_layer
from chop.ops import OPS
from chop.options import read_options
from chop.passes.base import PassResult, register_pass
from chop.registry import closest


@dataclass(frozen=True)
class QuantizeArgs:
    """By what nodes are chosen, and the config of each choice; None leaves a node alone."""

    by: Literal["type", "name", "regex_name"]
    configs: Mapping[str, QuantConfig | None] = field(default_factory=dict)
    default: QuantConfig | None = None

    @classmethod
    def from_pass_args(cls, pass_args: Mapping[str, Any] | None, where: str) -> Self:
        """Read `{"by": ..., "default": {"config": ...}, "linear": {"config": ...}, ...}`."""
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
    by: Literal["type", "name", "regex_name"]


def _config(entry: object, where: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping) or set(entry) != {"config"} or not isinstance(entry["config"], Mapping):
        raise ValueError(f"{where} must be a dict {{'config': {{'name': ..., ...}}}}, got {entry!r}")
    return cast("Mapping[str, Any]", entry["config"])


@register_pass("quantize", kind="transform")
def quantize_transform_pass(graph: MaseGraph, args: QuantizeArgs) -> PassResult:
    """Rounds the operands of the chosen nodes to the formats of their configs, wherever they are used.

    Node names, their number and the state dict stay. `info["quantized"]` lists the nodes that were changed.
    """
    metas = graph.annotated_metas()
    _check_choices(args, metas)
    plan = {meta.node: config for meta in metas if meta.quantizable and (config := _choose(args, meta))}
    _check_shared_layers(plan, metas)
    for meta in metas:
        if meta.node in plan:
            _quantize(meta, plan[meta.node])
    return graph, {"quantized": [node.name for node in plan]}


def _check_choices(args: QuantizeArgs, metas: list[NodeMeta]) -> None:
    """Every choice must mean something here: an op that exists, a node that can be quantised."""
    nodes = {meta.node.name: meta for meta in metas}
    for key in args.configs:
        if args.by == "type" and not (key in OPS and OPS[key].quantizable):
            known = [name for name, op in OPS.items() if op.quantizable]
            raise ValueError(f"quantize by type: no op '{key}' can be quantised; {closest(key, known)}")
        if args.by == "name" and not (key in nodes and nodes[key].quantizable):
            known = [name for name, meta in nodes.items() if meta.quantizable]
            what = f"node '{key}' is a {nodes[key].mase_op}" if key in nodes else f"there is no node '{key}'"
            raise ValueError(f"quantize by name: {what}, nothing to quantise; {closest(key, known)}")
        if args.by == "regex_name" and not any(_matches(key, name) for name in nodes):
            raise ValueError(f"quantize by regex_name: '{key}' matches no node; {closest(key, nodes)}")


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise ValueError(f"quantize by regex_name: '{pattern}' is no regular expression: {error}") from None


def _choose(args: QuantizeArgs, meta: NodeMeta) -> QuantConfig | None:
    """The config for a node. Of several patterns that match its name, the first one counts."""
    name = meta.node.name
    if args.by == "regex_name":
        matching = [config for pattern, config in args.configs.items() if _matches(pattern, name)]
        return matching[0] if matching else args.default
    key = meta.mase_op if args.by == "type" else name
    return args.configs[key] if key in args.configs else args.default


def _check_shared_layers(plan: Mapping[fx.Node, QuantConfig], metas: list[NodeMeta]) -> None:
    """A layer that is called at several nodes is one layer: it cannot be quantised in two ways."""
    first: dict[str, fx.Node] = {}
    for node in (meta.node for meta in metas if meta.module is not None):
        other = first.setdefault(str(node.target), node)
        if plan.get(other) != plan.get(node):
            raise ValueError(
                f"nodes '{other.name}' and '{node.name}' call the same layer '{node.target}' "
                "but have different configs; give both the same"
            )


def _quantize(meta: NodeMeta, config: QuantConfig) -> None:
    node, op, module = meta.node, meta.op, meta.module
    assert op is not None, "only nodes of the op table are chosen"
    operands = {operand.name: operand for operand in op.operands}
    # A variadic operand stands in the table once but in the graph once for each tensor.
    present = {name: operands.get(name, op.operands[0]) for name in meta.args}
    formats = config.for_op(op, present)
    config.note_borrowed({o.role for o in present.values() if o.role}, f"'{node.name}' ({op.name})")
    if module is not None:
        parent, _, name = str(node.target).rpartition(".")
        label = FORMATS[config.name].__name__
        setattr(meta.model.get_submodule(parent), name, quantize_layer(module, formats, label))
    else:
        target = node.target.target if isinstance(node.target, QuantizedCall) else node.target
        node.target = QuantizedCall(target, op.name, formats, config.name)
        node.op = "call_function"
    meta.note_formats()
