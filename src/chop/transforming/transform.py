"""Transform a model with the passes of a TOML file, as a graph or layer by layer."""

from __future__ import annotations

import copy
import io
import time
from dataclasses import replace

import torch

from chop.config import TransformConfig
from chop.display.launcher import launcher, option_name
from chop.files import write_bytes
from chop.ir.graph.device import CPU, moved
from chop.passes import PASSES
from chop.passes.graph import quantize_transform_pass
from chop.passes.module import quantize_module_transform_pass
from chop.runs import Experiment, RunFolder
from chop.training.threads import limit_threads_for
from chop.transforming.outcome import Outcome, graph_outcome, write_outcome
from chop.transforming.pipeline import PassResults, run_passes, with_recovery


def transform(config: TransformConfig) -> RunFolder:
    """Run the passes of `config` on its model and return the run folder."""
    start = time.perf_counter()
    by_module = config.transform.style == "module"
    if by_module and (config.report or config.open):
        raise ValueError(f'a report needs a graph: {option_name("report")} cannot be used with style = "module"')
    for name in config.passes:
        _ = PASSES[name]  # an unknown one is an error, before anything is loaded
    if config.recover_accuracy:
        config = replace(config, passes=with_recovery(config.passes))
    experiment = Experiment.load(config)
    with limit_threads_for(experiment, config.batch_size):
        if not config.passes:
            outcome = _with_its_own_formats(experiment)
        elif by_module:
            outcome = _transform_modules(config, experiment)
        else:
            original = experiment.annotated_graph()
            experiment.warn_if_quantized()
            outcome = graph_outcome(original, run_passes(config.passes, original, experiment))
        experiment.warn_if_untrained()
        return write_outcome(config, experiment, outcome, start)


def _with_its_own_formats(experiment: Experiment) -> Outcome:
    """Return a model that has number formats, such as that of an ONNX file; 'before' is the model in float."""
    graph = experiment.annotated_graph()
    if all(meta.quantized is None for meta in graph.metas()):
        raise ValueError(
            "there are no passes to run: add them to a TOML file, for example as [passes.quantize]; "
            f"'{launcher()} sweep' quantises all layers alike"
        )
    in_float = {"by": "type", "default": {"config": {"name": "float"}}}
    before, _ = quantize_transform_pass(copy.deepcopy(graph), in_float)
    return graph_outcome(before, PassResults(graph))


def _transform_modules(config: TransformConfig, experiment: Experiment) -> Outcome:
    """Quantise the layers of a model one by one, for models that cannot be captured as a graph."""
    others = [name for name in config.passes if name != "quantize"]
    if others:
        raise ValueError(f"pass '{others[0]}' needs a graph; style = \"module\" supports only 'quantize'")
    model = copy.deepcopy(experiment.model)
    quantized: list[str] = []
    for arguments in config.passes.values():
        model, info = quantize_module_transform_pass(model, {"compile": config.compile, **arguments})
        quantized += info["quantized"]

    def save(folder: RunFolder) -> None:
        buffer = io.BytesIO()
        torch.save(moved(model.state_dict(), CPU), buffer)
        write_bytes(folder.transformed_weights, buffer.getbuffer())

    return Outcome({"before": experiment.model, "after": model}, save, quantized_layers=quantized)
