"""`ch transform`: the passes of a TOML file over a model, and the graph that comes out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from chop.actions.config import TransformConfig
from chop.actions.run_folder import describe_run, make_run_folder, write_metrics, write_summary
from chop.actions.setting import Setting, prepare
from chop.actions.training.batches import in_order, place
from chop.actions.training.devices import pick_device
from chop.actions.training.metrics import Evaluation, evaluate
from chop.actions.training.report import show_table
from chop.ir import MaseGraph
from chop.passes import PASSES
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    save_mase_graph_interface_pass,
    summarize_quantization_analysis_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.tools.get_input import InputGenerator


def transform(config: TransformConfig) -> Path:
    """Run the passes of `config` over its model; the folder with the summary and the graph is returned."""
    start = time.perf_counter()
    passes = [(PASSES[name], arguments) for name, arguments in config.passes.items()]
    setting = prepare(config)
    device = pick_device(config.accelerator)
    original = annotated_graph(config, setting)
    graph = deepcopy_mase_graph(original)
    for run_pass, arguments in passes:
        graph, _ = run_pass(graph, arguments)
    results = _measure(config, setting, {"before": original, "after": graph}, device)
    run = make_run_folder(config)
    folder = run / "software" / "transform"
    folder.mkdir()
    summarize_quantization_analysis_pass(original, graph, save_dir=folder)
    save_mase_graph_interface_pass(graph, {"save_dir": folder / "transformed_ckpt"})
    _keep(config, setting, results, run, time.perf_counter() - start)
    if results:
        title = f"data: {setting.data.dataset_info.title}, test part"
        show_table(title, [(name, each.accuracy, each.loss) for name, each in results.items()])
    return folder


def annotated_graph(config: TransformConfig, setting: Setting) -> MaseGraph:
    """The model's graph with the metadata that one batch of the data set gives."""
    batches = InputGenerator(
        data_module=setting.data, model_info=setting.model_info, task=config.task, which_dataloader="train"
    )
    graph, _ = init_metadata_analysis_pass(MaseGraph(model=setting.model), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": next(iter(batches))})
    graph, _ = add_software_metadata_analysis_pass(graph, None)
    return graph


def _measure(
    config: TransformConfig, setting: Setting, graphs: Mapping[str, MaseGraph], device: torch.device
) -> dict[str, Evaluation]:
    """Each graph on the test part, unless `[transform] evaluate = false`."""
    if not config.transform.evaluate:
        return {}
    rows = place(setting.data.splits.test, device)
    results = {}
    with setting.fitting_threads(config.batch_size):
        for name, graph in graphs.items():
            model = graph.model.to(device)
            results[name] = evaluate(model, in_order(rows, config.batch_size), setting.num_classes, device)
            graph.model.cpu()
    return results


def _keep(
    config: TransformConfig, setting: Setting, results: Mapping[str, Evaluation], folder: Path, seconds: float
) -> None:
    numbers = {name: {"accuracy": each.accuracy, "loss": each.loss} for name, each in results.items()}
    summary: dict[str, Any] = {
        **describe_run("transform", config, setting),
        "passes": list(config.passes),
        "checkpoint": None if config.load_name is None else str(config.load_name),
        "test": numbers,
        "seconds": round(seconds, 3),
    }
    write_summary(folder, summary)
    write_metrics(folder, [{f"test_{n}_{what}": v for n, each in numbers.items() for what, v in each.items()}])
