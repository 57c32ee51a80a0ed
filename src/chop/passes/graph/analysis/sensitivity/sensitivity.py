"""How sensitive each node is to a number format."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from torch import Tensor

from chop.ir import MaseGraph
from chop.nn.quantized import QuantConfig
from chop.options import read_options
from chop.passes.base import DataArgs, LabelledDataArgs, PassResult, register_pass
from chop.passes.graph.analysis.sensitivity.measure import Effect, LabelledReplacements, measure_sensitivity
from chop.passes.quantization.replacement import make_replacements, with_formats_of
from chop.passes.quantization.selection import QuantizeArgs, chosen_configs
from chop.statistics.batches import LabelledBatch, limited_batches, limited_labelled_batches

logger = logging.getLogger(__name__)
_LABEL = "given"
_MAX_NODES_LOGGED = 10


@dataclass(frozen=True, kw_only=True)
class SensitivityArgs(DataArgs, LabelledDataArgs):
    """Formats to try, and data to try them on."""

    formats: QuantizeArgs | None
    """Written as `config`, one for all nodes, or as the arguments of `quantize`: `by`, `default` and so on."""
    quantized: MaseGraph | None = None
    """A quantised version of the graph, whose formats and scales are tried, instead of `config` or `by`."""
    nodes: tuple[str, ...] = ()
    """The nodes to measure; empty for all nodes that have a format."""
    both: bool = True
    """Also measure the graph with every node in its format except one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.input_generator is None) == (self.labelled_batches is None):
            raise ValueError("exactly one of 'input_generator' and 'labelled_batches' is required")

    @classmethod
    def from_pass_args(cls, pass_args: Mapping[str, Any] | None, where: str) -> Self:
        """Read `{"config": {"name": ...}, ...}`, or the entries of `quantize` instead of `config`."""
        if pass_args is not None and not isinstance(pass_args, Mapping):
            raise ValueError(f"{where}: must be a dict such as {{'config': ...}}, got {pass_args!r}")
        given = dict(pass_args or {})
        own = {field.name for field in fields(cls)}
        # An unknown key is a misspelt option unless its value is a table, which can be an entry of `quantize`.
        rest = {
            key: value
            for key, value in given.items()
            if key not in own and (key in ("by", "config") or isinstance(value, Mapping))
        }
        options = {key: value for key, value in given.items() if key not in rest}
        options["formats"] = None if "quantized" in options else _read_formats(rest, where)
        if rest and "quantized" in options:
            raise ValueError(
                f"{where}: 'quantized' has all formats and cannot be combined with '{next(iter(rest))}'"
            )
        return read_options(cls, options, where)

    def batches(self) -> Iterator[LabelledBatch]:
        if self.labelled_batches is not None:
            return limited_labelled_batches(map(_pair, self.labelled_batches), self.num_samples)
        return ((batch, None) for batch in limited_batches(self.input_generator or (), self.num_samples))


def _read_formats(given: Mapping[str, Any], where: str) -> QuantizeArgs:
    if "config" not in given:
        if "by" not in given:
            raise ValueError(
                f"{where}: needs either 'config', one format for all nodes, or 'by' and tables as in `quantize`"
            )
        return QuantizeArgs.from_pass_args(given, where)
    if len(given) > 1:
        other = next(key for key in given if key != "config")
        raise ValueError(f"{where}: 'config' is for all nodes and cannot be combined with '{other}'")
    config = given["config"]
    if not isinstance(config, Mapping | str):
        raise ValueError(f"{where}: 'config' must be a preset or a dict {{'name': ..., ...}}, got {config!r}")
    return QuantizeArgs("type", default=QuantConfig.read(config, f"{where}: 'config'"))


def _pair(batch: object) -> LabelledBatch:
    match batch:
        case (Mapping() as inputs, Tensor() as labels):
            return inputs, labels
    kind = type(batch).__name__
    raise ValueError(f"labelled_batches must yield pairs of a dict such as {{'x': tensor}} and labels, got {kind}")


@register_pass("sensitivity", kind="analysis")
def sensitivity_analysis_pass(graph: MaseGraph, args: SensitivityArgs) -> PassResult:
    """Measure how formats change the model's output, loss and accuracy: each node alone, and all nodes but one.

    `info["alone"][node]` has `sqnr_db` of the node's own output, `output_sqnr_db` of the model's, `loss_change` and
    `accuracy_change`; `info["all_but"][node]` and `info["quantized"]` (all nodes) have the last three, and
    `info["baseline"]` the `loss` and `accuracy` of the unchanged graph, which all changes are relative to.
    `info["ranking"]` lists the most sensitive node first: the one with the largest `loss_change` or, without
    labels, the lowest `output_sqnr_db`. Without labels, loss and accuracy are None. Nodes that call the same layer
    are measured together. The graph is not changed.
    """
    replacements = _replacements(graph, args)
    if not replacements:
        raise ValueError("sensitivity_analysis_pass: no node of this graph has a format")
    nodes = args.nodes or None
    found = measure_sensitivity(graph, replacements, args.batches(), nodes=nodes, both=args.both)
    alone = {node: effects[_LABEL] for node, effects in found.alone.items()}
    all_but = {node: effects[_LABEL] for node, effects in found.all_but.items() if effects}
    ranking = sorted(alone, key=lambda node: _sort_key(alone[node]))
    named = [f"{node} ({_numbers_text(alone[node])})" for node in ranking[:_MAX_NODES_LOGGED]]
    more = f" and {len(ranking) - _MAX_NODES_LOGGED} more" if len(ranking) > _MAX_NODES_LOGGED else ""
    logger.info("sensitivity, most sensitive first: %s%s", ", ".join(named), more)
    return graph, {
        "alone": {node: {"sqnr_db": effect.sqnr_db, **_numbers(effect)} for node, effect in alone.items()},
        "all_but": {node: _numbers(effect) for node, effect in all_but.items()},
        "baseline": {"loss": found.loss, "accuracy": found.accuracy},
        "quantized": _numbers(found.quantized[_LABEL]),
        "num_samples": found.num_samples,
        "ranking": ranking,
    }


def _replacements(graph: MaseGraph, args: SensitivityArgs) -> LabelledReplacements:
    if args.quantized is None:
        assert args.formats is not None, "they are read from the arguments, or an error is raised"
        return labelled_replacements(graph, {_LABEL: args.formats})
    quantized = {meta.node.name: meta.quantized for meta in args.quantized.metas()}
    by_name = {meta.node.name: (meta, quantized.get(meta.node.name)) for meta in graph.annotated_metas()}
    return {
        name: {_LABEL: with_formats_of(meta, layer)} for name, (meta, layer) in by_name.items() if layer is not None
    }


def labelled_replacements(graph: MaseGraph, choices: Mapping[str, QuantizeArgs]) -> LabelledReplacements:
    """Return the quantised layers and calls that may replace each node, by node name and label of the choice."""
    metas = graph.annotated_metas()
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    for label, args in choices.items():
        replacements, _ = make_replacements(chosen_configs(args, metas), metas)
        for meta in metas:
            if meta.node in replacements:
                found.setdefault(meta.node.name, {})[label] = replacements[meta.node]
    return found


def _numbers(effect: Effect) -> dict[str, float | None]:
    return {
        "output_sqnr_db": effect.output_sqnr_db,
        "loss_change": effect.loss_change,
        "accuracy_change": effect.accuracy_change,
    }


def _sort_key(effect: Effect) -> tuple[float, float]:
    """Sort by the loss if it is known, largest first, and then by the SQNR of the output, lowest first."""
    change = effect.loss_change or 0.0
    return (-math.inf if math.isnan(change) else -change), effect.output_sqnr_db


def _numbers_text(effect: Effect) -> str:
    ratio = f"{effect.output_sqnr_db:.1f} dB"
    return ratio if effect.loss_change is None else f"loss {effect.loss_change:+.2g}, {ratio}"
