"""`ch transform`: the passes of a TOML file over a model, and the graph that comes out."""

from __future__ import annotations

import copy
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from tabulate import tabulate
from torch import nn

from chop.config import TransformConfig
from chop.cost import estimate
from chop.ir import MaseGraph
from chop.passes import PASSES
from chop.passes.base import arguments_of, read_arguments
from chop.passes.graph import (
    save_mase_graph_interface_pass,
    summarize_quantization_analysis_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.passes.module import quantize_module_transform_pass
from chop.runs import Experiment, RunFolder
from chop.training.batches import in_order, place
from chop.training.devices import pick_device
from chop.training.metrics import Evaluation, evaluate
from chop.training.terminal import show_table
from chop.training.threads import fitting_threads

logger = logging.getLogger(__name__)
MEASURES = ("count_flops", "count_bitops", "calculate_avg_bits_mg", "estimate_cost", "verify_quantization")
"""Passes whose numbers are worth comparing: they are told and kept, before and after."""
CONVENTION = "bops"
"""How bits weigh in the cost that every summary tells."""
Number = tuple[str, str, float | None, float]
"""A pass, what it measured, and the number before and after."""


@dataclass(frozen=True)
class Outcome:
    """The models before and after, what writes the new one into a folder, what passes measured, and the cost."""

    models: Mapping[str, nn.Module]
    save: Callable[[RunFolder], None]
    numbers: Sequence[Number] = ()
    cost: Mapping[str, Any] | None = None


Transform = Callable[[TransformConfig, Experiment], Outcome]


def transform(config: TransformConfig) -> RunFolder:
    """Run the passes of `config` over its model and return the run folder."""
    start = time.perf_counter()
    by_style: Transform = _transform_modules if config.transform.style == "module" else _transform_graph
    if config.transform.style == "module" and (config.report or config.open):
        raise ValueError('a page shows a graph: --report does not go with style = "module"')
    for name in config.passes:
        _ = PASSES[name]  # an unknown one is told before anything is loaded
    experiment = Experiment.load(config)
    outcome = by_style(config, experiment)
    _warn(config)
    return write_outcome(config, experiment, outcome, start)


def write_outcome(config: TransformConfig, experiment: Experiment, outcome: Outcome, start: float) -> RunFolder:
    """Evaluate the models, write them into a new run folder, and return it."""
    results = _measure(config, experiment, outcome.models, pick_device(config.accelerator))
    folder = RunFolder.create_for(config)
    try:
        folder.transform.mkdir()
        outcome.save(folder)
        _keep(config, experiment, results, outcome, folder, time.perf_counter() - start)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # an incomplete run is of no use
        raise
    _tell(experiment, results, outcome.numbers)
    return folder


def _warn(config: TransformConfig) -> None:
    if not config.passes:
        logger.warning("there are no passes: a TOML file names them, as [passes.quantize]")
    if config.load_name is None:
        logger.warning("no checkpoint is loaded: these are fresh weights of '%s'; --load names one", config.model)


def _transform_graph(config: TransformConfig, experiment: Experiment) -> Outcome:
    """The model as a graph, and all passes over it."""
    arguments = {
        name: read_arguments(PASSES[name], _with_data(name, given, config, experiment))
        for name, given in config.passes.items()
    }
    original = experiment.annotated_graph()
    graph = deepcopy_mase_graph(original)
    numbers: list[Number] = []
    for name, args in arguments.items():
        graph, info = PASSES[name](graph, args)
        if name in MEASURES:
            before = numbers_in(PASSES[name](deepcopy_mase_graph(original), args)[1])
            numbers += [(name, key, before.get(key), value) for key, value in numbers_in(info).items()]

    return outcome_of(original, graph, numbers)


def outcome_of(original: MaseGraph, graph: MaseGraph, numbers: Sequence[Number] = ()) -> Outcome:
    """A graph as it was and as it is, ready to be tested and kept."""

    def save(folder: RunFolder) -> None:
        summarize_quantization_analysis_pass(original, graph, save_dir=folder.transform)
        save_mase_graph_interface_pass(graph, {"save_dir": folder.graph})

    return Outcome({"before": original.model, "after": graph.model}, save, numbers, _cost(original, graph))


def _cost(original: MaseGraph, graph: MaseGraph) -> dict[str, Any] | None:
    """What both graphs cost for the batch that annotated them; None where a pass added nodes without shapes."""
    before, after = original.metas(), graph.metas()
    if not all(meta.annotated for meta in after):
        return None
    inputs = next(meta for meta in before if meta.node.op == "placeholder").results.values()
    costs = {name: estimate(metas, CONVENTION) for name, metas in (("before", before), ("after", after))}
    totals = {name: asdict(cost.total) for name, cost in costs.items()}
    return {
        "samples": next(iter(inputs)).shape[0],
        "convention": CONVENTION,
        "unknown": list(costs["after"].unknown),
        **{name: {key: value for key, value in each.items() if value is not None} for name, each in totals.items()},
    }


def numbers_in(info: Mapping[str, Any]) -> dict[str, float]:
    """What a pass measured, in single numbers; of many signal-to-noise ratios, the lowest."""
    single = {**info, **info.get("total", {})}
    found = {key: value for key, value in single.items() if isinstance(value, int | float)}
    ratios = [
        (each["sqnr_db"], f"{node}.{operand}")
        for node, operands in info.items()
        if isinstance(operands, Mapping)
        for operand, each in operands.items()
        if isinstance(each, Mapping) and "sqnr_db" in each
    ]
    return found | ({f"lowest SQNR in dB ({min(ratios)[1]})": min(ratios)[0]} if ratios else {})


def _transform_modules(config: TransformConfig, experiment: Experiment) -> Outcome:
    """The layers of the model one by one, for models that cannot be traced; only `quantize` can do that."""
    others = [name for name in config.passes if name != "quantize"]
    if others:
        raise ValueError(f"pass '{others[0]}' needs a graph; style = \"module\" has 'quantize' only")
    model = copy.deepcopy(experiment.model)
    quantized: list[str] = []
    for arguments in config.passes.values():
        model, info = quantize_module_transform_pass(model, arguments)
        quantized += info["quantized"]

    def save(folder: RunFolder) -> None:
        for path in quantized:
            print(f"{path}: {model.get_submodule(path)}")
        torch.save(model.state_dict(), folder.transformed_weights)

    return Outcome({"before": experiment.model, "after": model}, save)


def _with_data(
    name: str, arguments: Mapping[str, Any], config: TransformConfig, experiment: Experiment
) -> dict[str, Any]:
    """The arguments of a pass, and rows of data if it wants some: a TOML file cannot hold them.

    Those for training; with their classes, those for validation if there are any.
    """
    wanted = {field.name for field in fields(arguments_of(PASSES[name]))}
    if "labelled_batches" in wanted:
        part = "val" if len(experiment.data.splits.val.labels) else "train"
        return {**arguments, "labelled_batches": experiment.batches(part).labelled()}
    if "input_generator" in wanted:
        return {**arguments, "input_generator": experiment.batches().once()}
    return {**arguments}


def _measure(
    config: TransformConfig, experiment: Experiment, models: Mapping[str, nn.Module], device: torch.device
) -> dict[str, Evaluation]:
    """Each model on the test part, unless `[transform] evaluate = false`."""
    if not config.transform.evaluate:
        return {}
    rows = place(experiment.data.splits.test, device)
    results = {}
    with fitting_threads(experiment, config.batch_size):
        for name, model in models.items():
            batches = in_order(rows, config.batch_size)
            results[name] = evaluate(model.to(device), batches, experiment.num_classes, device)
            model.cpu()
    return results


def _keep(
    config: TransformConfig,
    experiment: Experiment,
    results: Mapping[str, Evaluation],
    outcome: Outcome,
    folder: RunFolder,
    seconds: float,
) -> None:
    numbers = {name: {"accuracy": each.accuracy, "loss": each.loss} for name, each in results.items()}
    summary: dict[str, Any] = {
        **experiment.describe("transform"),
        "passes": list(config.passes),
        "checkpoint": None if config.load_name is None else str(config.load_name),
        "test": numbers,
        "measured": [dict(zip(("pass", "what", "before", "after"), each, strict=True)) for each in outcome.numbers],
        "cost": outcome.cost,
        "seconds": round(seconds, 3),
    }
    folder.write_summary(summary)
    folder.write_metrics([{f"test_{n}_{what}": v for n, each in numbers.items() for what, v in each.items()}])


def _tell(experiment: Experiment, results: Mapping[str, Evaluation], measured: Sequence[Number]) -> None:
    if measured:
        rows = [(name, what, _shown(before), _shown(after)) for name, what, before, after in measured]
        headers = ("pass", "what", "before", "after")
        align = ("left", "left", "right", "right")
        print("\n" + tabulate(rows, headers, disable_numparse=True, colalign=align))
    if results:
        title = f"data: {experiment.data.dataset_info.title}, test part"
        show_table(title, [(name, each.accuracy, each.loss) for name, each in results.items()])


def _shown(number: float | None) -> str:
    if number is None:
        return ""
    return str(number) if isinstance(number, int) else f"{number:.6g}"
