"""Statistics of weights and activations."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from chop.config import option
from chop.display.numbers import counted
from chop.display.progress import ProgressBar
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import bind_inputs, undisturbed
from chop.ops import OPS
from chop.passes.base import BatchArgs, PassResult, register_pass
from chop.registry import closest
from chop.statistics import Profile, TensorKey
from chop.statistics.batches import limited_batches, num_rows
from chop.statistics.fingerprint import check_same_model, fingerprints
from chop.statistics.profile import Options, make_statistics, update
from chop.statistics.profiler import Profiler, weights_of

logger = logging.getLogger(__name__)
ALL = "all"


@dataclass(frozen=True, kw_only=True)
class ProfileStatisticsArgs(BatchArgs):
    """Arguments of `profile_statistics`."""

    by: Literal["type", "name"] = "type"
    """Whether targets are ops, such as "linear", or node names; "all" means all nodes in both cases."""
    target_weight_nodes: tuple[str, ...] = ()
    """The nodes whose weights are profiled."""
    target_activation_nodes: tuple[str, ...] = ()
    """The nodes whose inputs are profiled."""
    weight_statistics: Options = field(default_factory=dict)
    """The options of each statistic by its name: `{"range_quantile": {"dims": "all", "quantile": 0.97}}`."""
    activation_statistics: Options = field(default_factory=dict)
    """The same for activations."""
    profile_output_activation: bool = False
    """Also profile the outputs of the target nodes."""
    num_samples: int | None = option(None, least=1, help="The number of rows to run; the last batch is cut.")
    profile: Path | Profile | None = None
    """An earlier profile of this model, or its file, to merge with the results."""
    save_to: Path | None = None
    """The file to save the profile in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_activation_nodes and self.activation_statistics:
            for name in ("input_generator", "num_samples"):
                if getattr(self, name) is None:
                    raise ValueError(f"the model must be run to profile activations: '{name}' is required")


@register_pass("profile_statistics", kind="analysis")
def profile_statistics_analysis_pass(graph: MaseGraph, args: ProfileStatisticsArgs) -> PassResult:
    """Compute statistics of the weights and inputs of the target nodes, and store them as `stat` of each tensor.

    They are stored in `parameters["software"]["args"][entry]["stat"]`, those of outputs under `["results"]`. The
    model runs in evaluation mode and stays unchanged. `info["num_samples"]` is the number of rows that were run,
    and `info["profile"]` is a `Profile`, which can be saved, merged with others, and continued.
    """
    metas = graph.annotated_metas()
    for meta in metas:
        if "args" not in meta.software:
            raise ValueError(
                f"node '{meta.node.name}' has no software metadata yet; "
                "run add_software_metadata_analysis_pass first"
            )
    make_statistics(args.weight_statistics, "weight_statistics")  # to report mistakes before the run
    make_statistics(args.activation_statistics, "activation_statistics")
    weighted = _targets(args.target_weight_nodes, args.by, metas, "target_weight_nodes")
    active = _targets(args.target_activation_nodes, args.by, metas, "target_activation_nodes")
    profile = _earlier(args.profile, metas)
    for meta in weighted:
        weights = weights_of(meta)
        if not weights and ALL not in args.target_weight_nodes:
            logger.info("node '%s' (%s) has no weights to profile", meta.node.name, meta.mase_op)
        for entry, weight in weights.items():
            key = TensorKey(meta.node.name, "weights", entry)
            profile.collections[key] = make_statistics(args.weight_statistics, "weight_statistics")
            update(profile.collections[key], weight, key)
    num_samples = 0
    if active and args.activation_statistics:
        found = _profile_activations(graph, active, args)
        num_samples = found.num_samples
        profile.merge(found)
    measured = {key.node for key in profile.collections}
    profile.fingerprints = fingerprints(meta for meta in metas if meta.node.name in measured)
    by_name = {meta.node.name: meta for meta in metas}
    for key, results in profile.results().items():
        kind = "results" if key.kind == "results" else "args"
        by_name[key.node].software[kind].setdefault(key.entry, {})["stat"] = results
    if args.save_to is not None:
        profile.save(args.save_to)
    return graph, {"num_samples": num_samples, "profile": profile}


def _earlier(given: Path | Profile | None, metas: list[NodeMeta]) -> Profile:
    """Return a copy of the profile to continue."""
    profile = Profile.load(given) if isinstance(given, Path) else given or Profile()
    known = {meta.node.name for meta in metas}
    for key in profile.collections:
        if key.node not in known:
            raise ValueError(f"the profile belongs to another model: this one has no node '{key.node}'")
    check_same_model(profile.fingerprints, metas)
    return profile.copied()


def _targets(names: tuple[str, ...], by: str, metas: list[NodeMeta], where: str) -> list[NodeMeta]:
    """Return the target nodes in graph order. An op that exists but is not in this graph is not an error."""
    keys = {meta.node: meta.mase_op if by == "type" else meta.node.name for meta in metas}
    known = {*keys.values(), *(OPS if by == "type" else ()), ALL}
    for name in names:
        if name not in known:
            what = "op" if by == "type" else "node"
            raise ValueError(f"{where}: there is no {what} '{name}'; {closest(name, known)}")
        if name not in (ALL, *keys.values()):
            logger.info("%s: the graph has no '%s'", where, name)
    chosen = [meta for meta in metas if ALL in names or keys[meta.node] in names]
    return [meta for meta in chosen if meta.node.op != "get_attr" or keys[meta.node] in names]


def _profile_activations(graph: MaseGraph, chosen: list[NodeMeta], args: ProfileStatisticsArgs) -> Profile:
    assert args.input_generator is not None, "checked when the arguments were read"
    assert args.num_samples is not None, "checked when the arguments were read"
    metas = {meta.node: meta for meta in chosen}
    weights = {meta.node: weights_of(meta) for meta in chosen}
    profiler = Profiler(graph.model, metas, weights, args.activation_statistics, args.profile_output_activation)
    batches = limited_batches(args.input_generator, args.num_samples)
    with undisturbed(graph.model), ProgressBar("profiling", args.num_samples) as progress:
        for batch in _of_one_size(batches) if _keeps_rows(args.activation_statistics) else batches:
            profiler.profile_batch(bind_inputs(graph, batch), num_rows(batch))
            progress.step(num_rows(batch))
            logger.debug("profiled %d of %d samples", profiler.profile.num_samples, args.num_samples)
    num_done = profiler.profile.num_samples
    if num_done == 0:
        raise ValueError("input_generator yields no batches")
    if num_done < args.num_samples and not _keeps_rows(args.activation_statistics):
        logger.warning("input_generator ended after %d of %d samples", num_done, args.num_samples)
    return profiler.profile


def _keeps_rows(statistics: Mapping[str, Mapping[str, Any] | None]) -> bool:
    """Whether a statistic has a result for each row of a batch, so that all batches must have the same size."""
    layouts = [((each or {}).get("dims", "all"), (each or {}).get("keep")) for each in statistics.values()]
    return any(dims is None if keep is None else 0 in keep for dims, keep in layouts)


def _of_one_size(batches: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield batches until one is smaller than the first, which is usually the last one."""
    size = None
    for batch in batches:
        rows = num_rows(batch)
        size = size or rows
        if rows < size:
            logger.warning(
                "the last batch has %s instead of %d and is skipped, because a statistic has a result for "
                "each row of a batch",
                counted(rows, "row"),
                size,
            )
            return
        yield batch
