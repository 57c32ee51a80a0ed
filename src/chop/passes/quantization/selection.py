"""Which config each node is given, by its op, its name, or a pattern of names."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from torch import fx

from chop.config.search import By
from chop.formats import Format
from chop.ir import NodeMeta
from chop.ir.graph.shared_layers import group_by_layer
from chop.nn.quantized import FormatSpec, QuantConfig
from chop.ops import OPS
from chop.options import read_options
from chop.registry import closest

logger = logging.getLogger(__name__)

T = TypeVar("T")
_OPTIONS = ("by", "compile")
"""The keys of `quantize` that are not a choice of nodes."""
LAYERS = (
    *("linear", "linear_transposed", "conv1d", "conv2d", "conv3d", "convolution"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "lstm", "gru", "rnn", "multihead_attention"),
    *("transformer_encoder_layer", "transformer_decoder_layer"),
    *("transformer_encoder", "transformer_decoder", "transformer"),
)
"""The ops that most tools quantise: those that multiply by weights."""


@dataclass(frozen=True)
class ByNode(Generic[T]):
    """An entry for each op, name or pattern, and one for all other nodes; None leaves a node alone."""

    by: By
    """Whether nodes are chosen by op (`type`), by `name`, or by regular expressions for names (`regex_name`)."""
    configs: Mapping[str, T | None] = field(default_factory=dict)
    """The entry for each op, name or regular expression."""
    default: T | None = None
    """The entry for all other nodes that can be quantised; None leaves them alone."""
    layers: T | None = None
    """The entry for all other linear layers, convolutions, recurrent layers and attention, before `default`."""

    def choose(self, op: str, name: str) -> T | None:
        """Return the entry for an op at a node or path. If several patterns match the name, the first is used."""
        other = self.layers if self.layers is not None and op in LAYERS else self.default
        if self.by == "regex_name":
            matching = [config for pattern, config in self.configs.items() if matches(pattern, name)]
            return matching[0] if matching else other
        key = op if self.by == "type" else name
        return self.configs[key] if key in self.configs else other

    def check(self, metas: Sequence[NodeMeta], where: str) -> None:
        """Raise an error if a key is not an op, or matches no node of the graph that can be quantised."""
        nodes = {meta.node.name: meta for meta in metas}
        can_be = [name for name, meta in nodes.items() if meta.quantizable]
        for key in self.configs:
            if self.by == "type" and not (key in OPS and OPS[key].quantizable):
                known = [name for name, op in OPS.items() if op.quantizable]
                raise ValueError(
                    f"{where} by type: '{key}' is not an op that can be quantised; {closest(key, known)}"
                )
            if self.by == "name" and key not in can_be:
                problem = f"there is no node '{key}'"
                if key in nodes:
                    op, name = nodes[key].op, nodes[key].mase_op
                    computes = op is not None and op.quantizable
                    why = "has no floating-point operands" if computes else "cannot be quantised"
                    problem = f"node '{key}' ({name}) {why}"
                raise ValueError(f"{where} by name: {problem}; {closest(key, can_be)}")
            if self.by == "regex_name" and not any(matches(key, name) for name in can_be):
                raise ValueError(
                    f"{where} by regex_name: '{key}' matches no node that can be quantised; {closest(key, can_be)}"
                )


@dataclass(frozen=True)
class QuantizeArgs(ByNode[QuantConfig]):
    """How nodes are chosen, and the config for each choice; None leaves a node alone."""

    compile: bool = False
    """Whether torch.compile makes the functions that round, with the same results in less time off the CPU."""

    example: ClassVar[str] = """\
[passes.quantize]
by = "type"

[passes.quantize.linear.config]
name = "integer"
data_in_width = 8
data_in_frac_width = 4
weight_width = 4
weight_frac_width = "auto"
"""

    @classmethod
    def from_pass_args(cls, pass_args: Mapping[str, Any] | str | Format | None, where: str) -> Self:
        """Read `{"by": ..., "layers": {"config": ...}, "default": {"config": ...}, "linear": {"config": ...}}`.

        A preset, or a format with parameters, is for all `layers`.
        """
        if isinstance(pass_args, str | Format):
            return cls("type", layers=QuantConfig.read(pass_args, where))
        if pass_args is not None and not isinstance(pass_args, Mapping):
            raise ValueError(
                f"{where}: must be a preset or a dict such as {{'by': 'type', ...}}, got {pass_args!r}"
            )
        given = dict(pass_args or {})
        options = read_options(cls, {key: given[key] for key in given.keys() & _OPTIONS}, where)
        read = {
            key: QuantConfig.read(_config(entry, f"{where}: '{key}'"), f"{where}: '{key}'")
            for key, entry in given.items()
            if key not in _OPTIONS
        }
        default, layers = read.pop("default", None), read.pop("layers", None)
        return replace(options, default=default, layers=layers, configs=read)


def chosen_configs(args: QuantizeArgs, metas: Sequence[NodeMeta]) -> dict[fx.Node, QuantConfig]:
    """Return the config of each node that is chosen.

    Raises an error if a choice matches nothing, or if nodes that call the same layer have different configs.
    """
    args.check(metas, "quantize")
    if args.by == "type":
        absent = [op for op in args.configs if not any(meta.quantizable and meta.mase_op == op for meta in metas)]
        for op in absent:
            logger.warning("quantize by type: the graph has no '%s' node, so its config has no effect", op)
    configs = {
        meta.node: config
        for meta in metas
        if meta.quantizable and (config := args.choose(meta.mase_op, meta.node.name))
    }
    for first, *others in group_by_layer((meta.node, meta.module) for meta in metas):
        for other in others:
            if configs.get(first) != configs.get(other):
                raise ValueError(
                    f"nodes '{first.name}' and '{other.name}' call the same layer '{other.target}' "
                    "but have different configs; give both nodes the same config"
                )
    return configs


def matches(pattern: str, name: str) -> bool:
    """Return whether a user's regular expression matches a name from its first to its last character."""
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise ValueError(f"'{pattern}' is not a regular expression: {error}") from None


def _config(entry: object, where: str) -> FormatSpec:
    match entry:
        case {"config": Mapping() | str() | Format() as config, **others} if not others:
            return cast("FormatSpec", config)
    raise ValueError(f"{where} must be a dict {{'config': {{'name': ..., ...}}}}, got {entry!r}")
