"""Passes run in order over a graph, with the data and the original graph that a TOML file cannot hold."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from torch import nn

from chop.config import ActionConfig, TransformConfig, common_options
from chop.display.launcher import option_name
from chop.ir import MaseGraph
from chop.nn.quantized import compile_rounding, forget_rounded
from chop.passes import PASSES
from chop.passes.base import read_arguments
from chop.runs import Experiment
from chop.runs.folder import with_absolute_paths
from chop.transforming.pass_results import to_json

Passes = Mapping[str, Mapping[str, Any]]
"""The arguments of each pass, in the order in which they run."""


def as_transform(config: ActionConfig, passes: Passes, **options: Any) -> TransformConfig:
    """Return the options of `ch transform` that run passes on the model and the data of another command."""
    common = common_options(with_absolute_paths(config)) | {"name": None} | options
    return TransformConfig(**common, passes=passes)


@dataclass(frozen=True)
class Comparison:
    """A number that a pass measured, before and after the transforms."""

    pass_name: str
    measure: str
    before: float | None
    after: float


def with_recovery(passes: Passes) -> Passes:
    """Return passes with `recover_accuracy` after `quantize`, or after `calibrate` if that is next."""
    names = list(passes)
    if "recover_accuracy" in names:
        return passes
    if "quantize" not in names:
        raise ValueError(f"{option_name('recover_accuracy')} needs [passes.quantize] in the TOML file")
    place = names.index("quantize") + 1
    place += names[place : place + 1] == ["calibrate"]
    ordered = [*names[:place], "recover_accuracy", *names[place:]]
    return {name: passes.get(name, {}) for name in ordered}


@dataclass(frozen=True)
class PassResults:
    """What passes returned: the new graph, numbers before and after, and the `info` of each pass by its name."""

    graph: MaseGraph
    comparisons: Sequence[Comparison] = ()
    infos: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Without tensors and other objects: the profile of a language model takes hundreds of megabytes."""


def run_passes(passes: Passes, original: MaseGraph, experiment: Experiment) -> PassResults:
    """Run all passes on a copy of `original`; those registered with `compare` also run on another copy, before.

    The result shares weights with `original` unless a pass may have changed them.
    """
    for name, given in passes.items():
        _arguments(name, given, original, experiment)  # reports mistakes before the first pass runs
    graph, is_sharing = _copy_sharing_weights(original), True
    comparisons: list[Comparison] = []
    infos: dict[str, Mapping[str, Any]] = {}
    for name, given in passes.items():
        run = PASSES[name]
        if is_sharing and not run.keeps_weights:
            graph, is_sharing = copy.deepcopy(graph), False
        graph, info = run(graph, _arguments(name, given, original, experiment))
        if experiment.config.compile:
            compile_rounding(graph.model)
        infos[name] = _plain(info)
        if run.compare:
            _, info_before = run(_copy_sharing_weights(original), _arguments(name, given, original, experiment))
            before = numbers_in(info_before)
            comparisons += [
                Comparison(name, measure, before.get(measure), after) for measure, after in numbers_in(info).items()
            ]
        forget_rounded(graph.model, original.model)
    return PassResults(graph, comparisons, infos)


def _plain(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return an `info` as JSON can hold it, but with infinite numbers."""
    return {key: value if isinstance(value, int | float) else to_json(value) for key, value in info.items()}


def _copy_sharing_weights(graph: MaseGraph) -> MaseGraph:
    """Return a copy with its own metadata whose weights use the memory of the original's.

    Vectors and scalars, among them the scales of formats, are small, and have their own memory.
    """
    weights = [weight for weight in graph.model.parameters() if weight.dim() > 1]
    # Other parameters with the same memory, so that moving one to a device does not move the other.
    shared = {id(w): nn.Parameter(w.detach(), requires_grad=w.requires_grad) for w in weights}
    return copy.deepcopy(graph, shared)


@contextmanager
def pass_messages_from(level: int) -> Iterator[None]:
    """Suppress messages of passes below `level`, where they run many times and say the same about each layer."""
    log = logging.getLogger("chop.passes")
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


def _arguments(name: str, given: Mapping[str, Any], original: MaseGraph, experiment: Experiment) -> Any:
    """Return the arguments of a pass, with what it needs and the file does not give; data start at the first row.

    `labelled_batches` are validation rows if there are any, else training rows, as `input_generator` always is.
    """
    added: dict[str, Any] = {}
    names = {field.name for field in fields(PASSES[name].args_class)}
    if "labelled_batches" in names:
        split = "val" if len(experiment.data.splits.val.labels) else "train"
        added["labelled_batches"] = experiment.batches(split).labelled()
    elif "input_generator" in names:
        added["input_generator"] = experiment.batches().once()
    if "original" in names:
        added["original"] = original
    return read_arguments(PASSES[name], {**added, **given})


def numbers_in(info: Mapping[str, Any]) -> dict[str, float]:
    """Return the single numbers in the `info` of a pass: at its top level, in its `total`, and the lowest SQNR."""
    candidates = {**info, **info.get("total", {})}
    ratios = {
        f"{node}.{operand}": float(measured["sqnr_db"])  # infinity is a text in what is kept of an `info`
        for node, operands in info.items()
        if isinstance(operands, Mapping)
        for operand, measured in operands.items()
        if isinstance(measured, Mapping) and "sqnr_db" in measured
    }
    if ratios:
        lowest = min(ratios, key=lambda name: ratios[name])
        candidates[f"lowest SQNR in dB ({lowest})"] = ratios[lowest]
    return {name: value for name, value in candidates.items() if isinstance(value, int | float)}
