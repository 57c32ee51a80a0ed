"""Collect statistics of weights and activations."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor, fx

from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.run import Runner, bind_inputs, named_inputs, tensors_in, undisturbed
from chop.ops import OPS
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.analysis.statistics import Statistic, make_statistic
from chop.passes.graph.utils import get_node_actual_target
from chop.registry import closest

logger = logging.getLogger(__name__)

Options = Mapping[str, Mapping[str, Any]]
Collection = dict[str, Statistic]
"""Statistics of one tensor, by name."""


@dataclass(frozen=True)
class ProfileStatisticsArgs:
    by: Literal["type", "name"]
    """Whether targets are ops, such as "linear", or names of nodes."""
    target_weight_nodes: tuple[str, ...] = ()
    target_activation_nodes: tuple[str, ...] = ()
    weight_statistics: Options = field(default_factory=dict)
    """The options of each statistic by its name: `{"range_quantile": {"dims": "all", "quantile": 0.97}}`."""
    activation_statistics: Options = field(default_factory=dict)
    profile_output_activation: bool = False
    """Profile what comes out of the target nodes, beside what goes in."""
    input_generator: Iterable[Mapping[str, Any]] | None = None
    """Batches by argument name, such as `{"x": tensor}`."""
    num_samples: int | None = None
    """How many rows to run; the last batch is cut to it."""

    def __post_init__(self) -> None:
        if self.num_samples is not None and self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1, got {self.num_samples}")
        if self.target_activation_nodes and self.activation_statistics:
            for name in ("input_generator", "num_samples"):
                if getattr(self, name) is None:
                    raise ValueError(f"activations are found by running the model, which needs '{name}'")


@register_pass("profile_statistics", kind="analysis")
def profile_statistics_analysis_pass(graph: MaseGraph, args: ProfileStatisticsArgs) -> PassResult:
    """Statistics of the weights and of the inputs of the target nodes, noted as `stat` of each tensor.

    They are found under `parameters["software"]["args"][entry]["stat"]`, those of outputs under `["results"]`.
    The model runs in evaluation mode and is left as it was. `info["num_samples"]` is the number of rows run.
    """
    metas = graph.annotated_metas()
    for meta in metas:
        if "args" not in meta.software:
            raise ValueError(
                f"node '{meta.node.name}' has no place for statistics yet; "
                "run add_software_metadata_analysis_pass first"
            )
    make_statistics(args.weight_statistics, "weight_statistics")  # so that mistakes show before the run
    make_statistics(args.activation_statistics, "activation_statistics")
    weighted = _targets(args.target_weight_nodes, args.by, metas, "target_weight_nodes")
    active = _targets(args.target_activation_nodes, args.by, metas, "target_activation_nodes")
    for meta in weighted:
        _profile_weights(meta, args.weight_statistics)
    num_samples = _profile_activations(graph, active, args) if active and args.activation_statistics else 0
    return graph, {"num_samples": num_samples}


def make_statistics(options: Options, where: str) -> Collection:
    return {name: make_statistic(name, given, where) for name, given in options.items()}


def _targets(names: tuple[str, ...], by: str, metas: list[NodeMeta], where: str) -> list[NodeMeta]:
    """The nodes that the targets mean, in graph order. An op that this graph does not have is no mistake."""
    keys = {meta.node: meta.mase_op if by == "type" else meta.node.name for meta in metas}
    known = {*keys.values(), *(OPS if by == "type" else ())}
    for name in names:
        if name not in known:
            what = "op" if by == "type" else "node"
            raise ValueError(f"{where}: there is no {what} '{name}'; {closest(name, known)}")
        if name not in keys.values():
            logger.info("%s: the graph has no '%s'", where, name)
    return [meta for meta in metas if keys[meta.node] in names]


def _weights(meta: NodeMeta) -> dict[str, Tensor]:
    """A layer's own weight and bias, or those attributes of the model that a function takes as such."""
    found = {name: value for name in meta.args if meta.args[name].held and (value := meta.value(name)) is not None}
    if meta.op is not None and meta.module is None:
        for name, operand, source in meta.op.bound(meta.node.args, meta.node.kwargs):
            is_attribute = isinstance(source, fx.Node) and source.op == "get_attr"
            if is_attribute and operand.role in ("weight", "bias"):
                found[name] = get_node_actual_target(source)
    return found


def _profile_weights(meta: NodeMeta, options: Options) -> None:
    weights = _weights(meta)
    if not weights:
        logger.info("node '%s' (%s) has no weights to profile", meta.node.name, meta.mase_op)
    for entry, weight in weights.items():
        statistics = make_statistics(options, "weight_statistics")
        _update(statistics, weight, meta.node, entry)
        _note(meta, "args", entry, statistics)


def _profile_activations(graph: MaseGraph, chosen: list[NodeMeta], args: ProfileStatisticsArgs) -> int:
    assert args.input_generator is not None, "checked when the arguments were read"
    assert args.num_samples is not None, "checked when the arguments were read"
    profiler = _Profiler(graph.model, chosen, args)
    num_done = 0
    with undisturbed(graph.model):
        for rows, batch in _batches(args.input_generator, args.num_samples):
            profiler.run(*bind_inputs(graph, batch))
            num_done += rows
            logger.debug("profiled %d of %d samples", num_done, args.num_samples)
    if num_done == 0:
        raise ValueError("input_generator gives no batches")
    if num_done < args.num_samples:
        logger.warning("input_generator ended after %d of %d samples", num_done, args.num_samples)
    for meta in chosen:
        for kind, collections in profiler.collections[meta.node].items():
            for entry, statistics in collections.items():
                _note(meta, kind, entry, statistics)
    return num_done


def _batches(batches: Iterable[Mapping[str, Any]], num_samples: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Batches with their numbers of rows: `num_samples` in all."""
    wanted = num_samples
    for batch in batches:
        if not isinstance(batch, Mapping):
            kind = type(batch).__name__
            raise ValueError(f"input_generator must give dicts such as {{'x': tensor}}, got a {kind}")
        # The number of rows is that of the first tensor; others may have no dimension of rows.
        tensors = (value for value in batch.values() if isinstance(value, Tensor) and value.ndim > 0)
        rows = next((len(tensor) for tensor in tensors), 1)
        taken = min(rows, wanted)
        yield taken, {name: _cut(value, rows, taken) for name, value in batch.items()}
        wanted -= taken
        if wanted == 0:
            return


def _cut(value: object, rows: int, taken: int) -> object:
    return value[:taken] if isinstance(value, Tensor) and value.ndim > 0 and len(value) == rows else value


class _Profiler(Runner):
    """Runs the model and shows to statistics what goes into the chosen nodes and comes out."""

    def __init__(self, model: fx.GraphModule, chosen: list[NodeMeta], args: ProfileStatisticsArgs) -> None:
        super().__init__(model)
        self.args = args
        self.metas = {meta.node: meta for meta in chosen}
        self.weights = {meta.node: _weights(meta) for meta in chosen}
        self.collections: dict[fx.Node, dict[str, dict[str, Collection]]] = {
            meta.node: {"args": {}, "results": {}} for meta in chosen
        }

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if node in self.metas:
            for entry, tensor in named_inputs(self.metas[node], args, kwargs).items():
                if entry not in self.weights[node]:
                    self._show(node, "args", entry, tensor)

    def after(self, node: fx.Node, result: Any) -> None:
        if node in self.metas and self.args.profile_output_activation:
            for i, tensor in enumerate(tensors_in(result)):
                self._show(node, "results", f"data_out_{i}", tensor)

    def _show(self, node: fx.Node, kind: str, entry: str, tensor: Tensor) -> None:
        collections = self.collections[node][kind]
        if entry not in collections:
            collections[entry] = make_statistics(self.args.activation_statistics, "activation_statistics")
        _update(collections[entry], tensor, node, entry)


def _update(statistics: Collection, tensor: Tensor, node: fx.Node, entry: str) -> None:
    for name, statistic in statistics.items():
        try:
            statistic.update(tensor)
        except ValueError as error:
            raise ValueError(f"'{name}' of '{entry}' at node '{node.name}': {error}") from error


def _note(meta: NodeMeta, kind: str, entry: str, statistics: Collection) -> None:
    results = {name: statistic.compute() for name, statistic in statistics.items()}
    meta.software[kind].setdefault(entry, {})["stat"] = results
