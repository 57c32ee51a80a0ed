"""The result of a transform: evaluated, written into a run folder and printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from chop.config import TransformConfig
from chop.cost.estimate import summarize_cost
from chop.dataset import DatasetInfo
from chop.display.html import shown_in_notebook
from chop.display.progress import ProgressBar, Stage
from chop.display.tables import plain_table
from chop.files import write_json
from chop.ir import MaseGraph
from chop.ir.graph.storage import save_graph
from chop.nn.quantized import QuantizedLayer, forget_rounded
from chop.passes import PASSES
from chop.passes.graph.transforms.quantize.summary import summarize_quantization
from chop.runs import Experiment, RunFolder
from chop.tasks import Evaluation
from chop.training.batches import evaluation_batches, to_device
from chop.training.evaluation import evaluate
from chop.training.terminal import print_scores
from chop.transforming.pass_results import tables_of, to_json
from chop.transforming.pipeline import Comparison, PassResults, numbers_in

MAX_LAYERS_PRINTED = 20


@dataclass(frozen=True)
class Outcome:
    """The models `before` and `after` a transform, with what was measured on them."""

    models: Mapping[str, nn.Module]
    save: Callable[[RunFolder], None]
    """Writes the new model into a run folder."""
    comparisons: Sequence[Comparison] = ()
    infos: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The `info` of each pass."""
    cost: Mapping[str, Any] | None = None
    quantized_layers: Sequence[str] = ()
    """The paths of layers that were quantised one by one rather than in a graph."""


def graph_outcome(original: MaseGraph, results: PassResults) -> Outcome:
    """Return the outcome of passes that ran on `original`."""
    graph = results.graph

    def save(folder: RunFolder) -> None:
        summarize_quantization(original, graph, folder.transform)
        with Stage("saving the graph"):
            save_graph(graph, folder.graph)

    models = {"before": original.model, "after": graph.model}
    cost = summarize_cost({"before": original.metas(), "after": graph.metas()})
    return Outcome(models, save, results.comparisons, results.infos, cost)


def write_outcome(config: TransformConfig, experiment: Experiment, outcome: Outcome, start: float) -> RunFolder:
    """Evaluate the models, write them into a new run folder, print the results and return the folder.

    `start` is the `time.perf_counter()` at which the transform began.
    """
    experiment.log_data()
    results = _evaluate(config, experiment, outcome.models) if config.transform.evaluate else {}
    folder = RunFolder.create_for(config)
    try:
        folder.transform.mkdir()
        outcome.save(folder)
        write_json(folder.pass_results, to_json(outcome.infos))
        test = {name: dict(result.metrics) for name, result in results.items()}
        folder.write_summary(
            {
                **experiment.describe("transform"),
                "passes": list(config.passes),
                "checkpoint": None if config.load_name is None else str(config.load_name),
                "test": test,
                "measured": [
                    {"pass": each.pass_name, "what": each.measure, "before": each.before, "after": each.after}
                    for each in outcome.comparisons
                ],
                "cost": outcome.cost,
                "seconds": round(time.perf_counter() - start, 3),
            }
        )
        metrics = {f"test_{name}_{key}": value for name, own in test.items() for key, value in own.items()}
        folder.write_metrics([metrics])
    except BaseException:
        folder.discard()  # an incomplete run cannot be used
        raise
    for path in outcome.quantized_layers[:MAX_LAYERS_PRINTED]:
        print(f"{path}: {outcome.models['after'].get_submodule(path)}")
    if len(outcome.quantized_layers) > MAX_LAYERS_PRINTED:
        print(f"... and {len(outcome.quantized_layers) - MAX_LAYERS_PRINTED} more quantised layers")
    _print_infos({name: info for name, info in outcome.infos.items() if not PASSES[name].prints})
    before = "before (quantised)" if config.quantizes and experiment.starts_quantized else "before"
    shown = {before if name == "before" else name: result for name, result in results.items()}
    _print_outcome(experiment.data.dataset_info, shown, outcome.comparisons)
    return folder


def _evaluate(
    config: TransformConfig, experiment: Experiment, models: Mapping[str, nn.Module]
) -> dict[str, Evaluation]:
    """Evaluate each model on the test split."""
    device = experiment.device
    rows = to_device(experiment.data.splits.test, device)
    results: dict[str, Evaluation] = {}
    for name, model in models.items():
        _cache_weights(model, config.transform.cache_weights)
        with ProgressBar(f"evaluating the model {name}", len(rows.labels)) as progress:
            results[name] = evaluate(
                model,
                evaluation_batches(rows, config.batch_size),
                experiment.meter(device, results.get("before")),
                device,
                arguments=experiment.arguments,
                progress=progress,
            )
        forget_rounded(model)
        _cache_weights(model, True)
    return results


def _cache_weights(model: nn.Module, keep: bool) -> None:
    for layer in model.modules():
        if isinstance(layer, QuantizedLayer):
            layer.cache_weights = keep


def _print_outcome(info: DatasetInfo, results: Mapping[str, Evaluation], comparisons: Sequence[Comparison]) -> None:
    """Print what the passes measured, and the metrics of the task on the test split, before and after."""
    if comparisons:
        rows = [(each.pass_name, each.measure, _number(each.before), _number(each.after)) for each in comparisons]
        headers, align = ("pass", "measure", "before", "after"), ("left", "left", "right", "right")
        print("\n" + plain_table(headers, rows, align))
    if results:
        print_scores(f"data: {info.title}, test split", {name: each.metrics for name, each in results.items()})


def _print_infos(infos: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what passes returned, as tables where that is possible; numbers that are compared are left out."""
    for name, info in infos.items():
        compared = numbers_in(info) if PASSES[name].compare else {}
        for table in tables_of({key: value for key, value in info.items() if key not in compared}):
            print(f"\n{name}")
            if shown_in_notebook(table.headers, table.rows):
                continue
            align = ("left", *("right",) * (len(table.headers) - 1))
            print(plain_table(table.headers, table.rows, align))


def _number(value: float | None) -> str:
    """Return a number without commas, as in the `info` of the pass that measured it."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6g}"
