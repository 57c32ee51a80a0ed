"""Quantised copies of a model beside the model itself: by format, and by layer."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from chop.cost.memory import Storage, weight_storage
from chop.dataset.splits import IGNORED
from chop.display.tables import Measured, Table, value_of
from chop.ir import MaseGraph
from chop.ir.graph.graph_module import MaseGraphModule
from chop.ir.graph.interpreter import undisturbed
from chop.nn.quantized import FormatSpec, QuantizedCall, QuantizedLayer
from chop.passes.graph import compare_graphs_analysis_pass
from chop.quantizing.batches import Batches
from chop.quantizing.quantize import Style, captured, quantize
from chop.statistics.deviation import Deviation
from chop.statistics.scoring import Score, add_output
from chop.tasks.base import first_tensor
from chop.tasks.language_modelling import perplexity


def compare(model: nn.Module, specs: FormatSpec | Sequence[FormatSpec], data: Any) -> Table:
    """Return a row for the model as it is, and one for each of `specs`; see `chop.compare`."""
    batches = Batches.of(model, data)
    graph = captured(copy.deepcopy(model), batches.first())
    source = model if graph is None else graph.model
    style: Style = "module" if graph is None else "graph"
    rows: list[dict[str, Any]] = []
    for spec in cast("Sequence[FormatSpec]", specs if isinstance(specs, list | tuple) else [specs]):
        quantized = quantize(source, spec, batches.batches, style=style)
        before, after, sqnr_db = _measured(model, quantized, batches)
        if not rows:
            width = 8 * next(model.parameters()).dtype.itemsize
            rows.append({"format": "unchanged", **before, "quantized_weight_bits": float(width)})
        if after:
            after["accuracy_change"] = value_of(after["accuracy"]) - value_of(before["accuracy"])
        bits = _stored_weights(quantized).average
        rows.append({"format": _label(spec), **after, "output_sqnr_db": sqnr_db, "quantized_weight_bits": bits})
    return _table(rows)


def layers(quantized: nn.Module, original: nn.Module, data: Any) -> Table:
    """Return the error of each quantised layer, and of the output; see `chop.layers`."""
    batches = Batches.of(original, data)
    if isinstance(quantized, MaseGraphModule):
        graph = MaseGraph(quantized)
        given = {
            "input_generator": batches.inputs(),
            "original": MaseGraph(original, example_inputs=batches.first()),
        }
        errors = compare_graphs_analysis_pass(graph, given)[1]["by_node"]
        found = {meta.node.name: (meta.mase_op, meta.quantized) for meta in graph.metas()}
        shown = [name for name in errors if found[name][1] is not None or name == list(errors)[-1]]
        return _table(
            [{"node": name, "op": found[name][0], **_formats(found[name][1]), **errors[name]} for name in shown]
        )
    replaced = {path: layer for path, layer in quantized.named_modules() if isinstance(layer, QuantizedLayer)}
    deviations = _deviations_of_layers(quantized, original, list(replaced), batches)
    return _table(
        [
            {
                "layer": path,
                "op": replaced[path].op.name,
                **_formats(replaced[path]),
                "sqnr_db": deviation.sqnr_db,
                "max_error": deviation.max_error,
                "cosine": deviation.cosine,
            }
            for path, deviation in deviations.items()
        ]
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows by the name of the column as a table."""
    columns = list(dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row))
    return Table(columns, [[row.get(name) for name in columns] for row in rows])


def _measured(
    model: nn.Module, quantized: nn.Module, batches: Batches
) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Return the metrics of both models on the same batches, and the SQNR of the output in dB."""
    scores, deviation = (Score(batches.device), Score(batches.device)), Deviation()
    with undisturbed(model), undisturbed(quantized):
        for inputs, labels in batches:
            outputs = [first_tensor(each(**inputs)) for each in (model, quantized)]
            deviation.add_tensor(*outputs)
            if labels is not None and not labels.is_floating_point():
                for score, output in zip(scores, outputs, strict=True):
                    add_output(score, output, _targets(output, labels, inputs))
    is_text = labels is not None and outputs[0].dim() == 3
    before, after = (_metrics(score, is_text) for score in scores)
    return before, after, deviation.sqnr_db


def _metrics(score: Score, is_text: bool) -> dict[str, Any]:
    """Return accuracy with its standard error, and loss; the tokens of a text are not independent."""
    if not score.num_samples:
        return {}
    loss, accuracy = score.read()
    if is_text:
        return {"accuracy": accuracy, "loss": loss, "perplexity": perplexity(loss)}
    error = math.sqrt(accuracy * (1 - accuracy) / score.num_samples)
    return {"accuracy": Measured(accuracy, error), "loss": loss}


def _targets(output: Tensor, labels: Tensor, inputs: Mapping[str, Any]) -> Tensor:
    """Return the label of each output; those of transformers' language models are the inputs themselves."""
    tokens = inputs.get("input_ids")
    if output.dim() != 3 or tokens is None or tokens.shape != labels.shape:
        return labels
    if not ((labels == tokens) | (labels == IGNORED)).all():
        return labels
    return torch.cat((labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)), 1)


def _stored_weights(quantized: nn.Module) -> Storage:
    """Return the storage of the weights of all quantised layers and calls, with their scales."""
    if isinstance(quantized, MaseGraphModule):
        return weight_storage(MaseGraph(quantized).metas(), quantized=True)
    distinct: dict[Any, Storage] = {}
    for layer in [module for module in quantized.modules() if isinstance(module, QuantizedLayer)]:
        for name, weight in layer.op.parameters_of(layer).items():
            operand = layer.op.operand(name)
            if operand is not None and operand.role == "weight" and name in layer.formats:
                bits = layer.formats[name].storage_bits(weight.shape)
                distinct[id(weight), layer.formats[name]] = Storage(weight.numel(), bits)
    return Storage(*(sum(getattr(each, key) for each in distinct.values()) for key in ("elements", "bits")))


def _label(spec: FormatSpec) -> str:
    return str(spec.get("name", "config")) if isinstance(spec, Mapping) else str(spec)


def _formats(quantized: QuantizedLayer | QuantizedCall | None) -> dict[str, str]:
    """Return the formats of a layer's input and weight as text."""
    formats = {} if quantized is None else quantized.formats
    shown = {"input": formats.get("data_in_0"), "weight": formats.get("weight")}
    return {name: "" if each is None or not each.rounds else str(each) for name, each in shown.items()}


def _deviations_of_layers(
    quantized: nn.Module, original: nn.Module, paths: Sequence[str], batches: Batches
) -> dict[str, Deviation]:
    """Return the deviation of the output of each layer, in the order in which they run."""
    deviations: dict[str, Deviation] = {}
    outputs: dict[str, list[Any]] = defaultdict(list)

    def keep(path: str, *call: Any) -> None:
        outputs[path].append(call[-1])

    def measure(path: str, *call: Any) -> None:
        deviations.setdefault(path, Deviation()).add(outputs[path].pop(0), call[-1])

    hooks = [original.get_submodule(path).register_forward_hook(partial(keep, path)) for path in paths]
    hooks += [quantized.get_submodule(path).register_forward_hook(partial(measure, path)) for path in paths]
    try:
        with undisturbed(original), undisturbed(quantized):
            for inputs in batches.inputs():
                outputs.clear()
                original(**inputs)
                quantized(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return deviations
