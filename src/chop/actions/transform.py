"""`ch transform`: the passes of a TOML file over a model, and the graph that comes out."""

from __future__ import annotations

import copy
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate
from torch import nn

from chop.actions.config import ActionConfig, ReportConfig, TransformConfig
from chop.actions.run_folder import describe_run, make_run_folder, write_metrics, write_summary
from chop.actions.setting import Setting, prepare
from chop.actions.training.batches import in_order, place
from chop.actions.training.devices import pick_device
from chop.actions.training.metrics import Evaluation, evaluate
from chop.actions.training.report import show_table
from chop.cost import estimate
from chop.ir import MaseGraph
from chop.passes import PASSES
from chop.passes.base import arguments_of, read_arguments
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    save_mase_graph_interface_pass,
    summarize_quantization_analysis_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.passes.module import quantize_module_transform_pass
from chop.tools.get_input import InputGenerator

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
    save: Callable[[Path], None]
    numbers: Sequence[Number] = ()
    cost: Mapping[str, Any] | None = None


Transform = Callable[[TransformConfig, Setting], Outcome]


def transform(config: TransformConfig) -> Path:
    """Run the passes of `config` over its model; the folder with the summary and the new model is returned."""
    start = time.perf_counter()
    by_style: Transform = _transform_modules if config.transform.style == "module" else _transform_graph
    if config.transform.style == "module" and (config.report or config.open):
        raise ValueError('a page shows a graph: --report does not go with style = "module"')
    for name in config.passes:
        _ = PASSES[name]  # an unknown one is told before anything is loaded
    setting = prepare(config)
    outcome = by_style(config, setting)
    _warn(config)
    folder = write_outcome(config, setting, outcome, start)
    if config.report or config.open:
        from chop.actions.report import report  # which opens runs, and so imports this file

        page = report(ReportConfig(run=folder, open=config.open))
        print(f"page: {page}")
    return folder


def write_outcome(config: TransformConfig, setting: Setting, outcome: Outcome, start: float) -> Path:
    """Test the models and keep them in the folder of a new run; that of the graph is returned."""
    results = _measure(config, setting, outcome.models, pick_device(config.accelerator))
    run = make_run_folder(config)
    try:
        folder = run / "software" / "transform"
        folder.mkdir()
        outcome.save(folder)
        _keep(config, setting, results, outcome, run, time.perf_counter() - start)
    except BaseException:
        shutil.rmtree(run, ignore_errors=True)  # a half of it would be of no use
        raise
    _tell(setting, results, outcome.numbers)
    return folder


def _warn(config: TransformConfig) -> None:
    if not config.passes:
        logger.warning("there are no passes: a TOML file names them, as [passes.quantize]")
    if config.load_name is None:
        logger.warning("no checkpoint is loaded: these are fresh weights of '%s'; --load names one", config.model)


def _transform_graph(config: TransformConfig, setting: Setting) -> Outcome:
    """The model as a graph, and all passes over it."""
    arguments = {
        name: read_arguments(PASSES[name], _with_data(name, given, config, setting))
        for name, given in config.passes.items()
    }
    original = annotated_graph(config, setting)
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

    def save(folder: Path) -> None:
        summarize_quantization_analysis_pass(original, graph, save_dir=folder)
        save_mase_graph_interface_pass(graph, {"save_dir": folder / "transformed_ckpt"})

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


def _transform_modules(config: TransformConfig, setting: Setting) -> Outcome:
    """The layers of the model one by one, for models that cannot be traced; only `quantize` can do that."""
    others = [name for name in config.passes if name != "quantize"]
    if others:
        raise ValueError(f"pass '{others[0]}' needs a graph; style = \"module\" has 'quantize' only")
    model = copy.deepcopy(setting.model)
    quantized: list[str] = []
    for arguments in config.passes.values():
        model, info = quantize_module_transform_pass(model, arguments)
        quantized += info["quantized"]

    def save(folder: Path) -> None:
        for path in quantized:
            print(f"{path}: {model.get_submodule(path)}")
        torch.save(model.state_dict(), folder / "transformed.pt")

    return Outcome({"before": setting.model, "after": model}, save)


def _with_data(
    name: str, arguments: Mapping[str, Any], config: TransformConfig, setting: Setting
) -> dict[str, Any]:
    """The arguments of a pass, and rows of data if it wants some: a TOML file cannot hold them.

    Those for training; with their classes, those for validation if there are any.
    """
    wanted = {field.name for field in fields(arguments_of(PASSES[name]))}
    if "labelled_batches" in wanted:
        part = "val" if len(setting.data.splits.val.labels) else "train"
        return {**arguments, "labelled_batches": _batches(config, setting, part).labelled()}
    if "input_generator" in wanted:
        return {**arguments, "input_generator": _batches(config, setting).once()}
    return {**arguments}


def _batches(config: ActionConfig, setting: Setting, part: str = "train") -> InputGenerator:
    return InputGenerator(
        data_module=setting.data, model_info=setting.model_info, task=config.task, which_dataloader=part
    )


def annotated_graph(config: ActionConfig, setting: Setting, num_rows: int | None = None) -> MaseGraph:
    """The model's graph with the metadata that one batch of the data set gives, or its first `num_rows` rows."""
    graph, _ = init_metadata_analysis_pass(MaseGraph(model=setting.model), None)
    batch = {name: rows[:num_rows] for name, rows in next(iter(_batches(config, setting))).items()}
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": batch})
    graph, _ = add_software_metadata_analysis_pass(graph, None)
    return graph


def _measure(
    config: TransformConfig, setting: Setting, models: Mapping[str, nn.Module], device: torch.device
) -> dict[str, Evaluation]:
    """Each model on the test part, unless `[transform] evaluate = false`."""
    if not config.transform.evaluate:
        return {}
    rows = place(setting.data.splits.test, device)
    results = {}
    with setting.fitting_threads(config.batch_size):
        for name, model in models.items():
            batches = in_order(rows, config.batch_size)
            results[name] = evaluate(model.to(device), batches, setting.num_classes, device)
            model.cpu()
    return results


def _keep(
    config: TransformConfig,
    setting: Setting,
    results: Mapping[str, Evaluation],
    outcome: Outcome,
    folder: Path,
    seconds: float,
) -> None:
    numbers = {name: {"accuracy": each.accuracy, "loss": each.loss} for name, each in results.items()}
    summary: dict[str, Any] = {
        **describe_run("transform", config, setting),
        "passes": list(config.passes),
        "checkpoint": None if config.load_name is None else str(config.load_name),
        "test": numbers,
        "measured": [dict(zip(("pass", "what", "before", "after"), each, strict=True)) for each in outcome.numbers],
        "cost": outcome.cost,
        "seconds": round(seconds, 3),
    }
    write_summary(folder, summary)
    write_metrics(folder, [{f"test_{n}_{what}": v for n, each in numbers.items() for what, v in each.items()}])


def _tell(setting: Setting, results: Mapping[str, Evaluation], measured: Sequence[Number]) -> None:
    if measured:
        rows = [(name, what, _shown(before), _shown(after)) for name, what, before, after in measured]
        headers = ("pass", "what", "before", "after")
        align = ("left", "left", "right", "right")
        print("\n" + tabulate(rows, headers, disable_numparse=True, colalign=align))
    if results:
        title = f"data: {setting.data.dataset_info.title}, test part"
        show_table(title, [(name, each.accuracy, each.loss) for name, each in results.items()])


def _shown(number: float | None) -> str:
    if number is None:
        return ""
    return str(number) if isinstance(number, int) else f"{number:.6g}"
