"""Evaluating a model on rows of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from chop.dataset import DatasetInfo, Rows
from chop.display.progress import ProgressBar
from chop.ir.graph.interpreter import evaluation_mode
from chop.runs import Experiment
from chop.statistics.scoring import correct_predictions
from chop.tasks import Evaluation, Meter, Reduce
from chop.tasks.base import first_tensor
from chop.training.batches import Batch, evaluation_batches, to_device

Arguments = Callable[[Tensor], Mapping[str, Tensor]]
"""Returns the arguments of a model's forward for some rows."""


def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    meter: Meter,
    device: torch.device,
    *,
    arguments: Arguments | None = None,
    reduce: Reduce | None = None,
    progress: ProgressBar | None = None,
) -> Evaluation:
    """Evaluate a model in evaluation mode; its mode is restored, also after an error.

    Without `arguments`, rows are the first argument of the model.
    """
    with evaluation_mode(model):
        for batch in batches:
            features, labels = batch.features.to(device), batch.labels.to(device)
            inputs = {} if arguments is None else arguments(features)
            meter.add(model(**inputs) if inputs else model(features), labels, inputs)
            if progress is not None:
                progress.step(batch.num_rows)
    return meter.read(reduce)


def evaluate_on(rows: Rows, model: nn.Module, experiment: Experiment, device: torch.device) -> Evaluation:
    """Evaluate a model of an experiment on some rows; afterwards it is on the device."""
    rows = to_device(rows, device)
    batches = evaluation_batches(rows, experiment.config.batch_size)
    return evaluate(model.to(device), batches, experiment.meter(device), device, arguments=experiment.arguments)


def correct_on(rows: Rows, model: nn.Module, experiment: Experiment) -> Tensor:
    """Return whether each prediction on some rows is right: a bool per row, or per scored token of a text."""
    device, found = experiment.device, []
    rows, model = to_device(rows, device), model.to(device)
    with evaluation_mode(model):
        for batch in evaluation_batches(rows, experiment.config.batch_size):
            logits = first_tensor(model(**experiment.arguments(batch.features.to(device))))
            found.append(correct_predictions(logits, batch.labels.to(device)).cpu())
    return torch.cat(found)


def class_names(info: DatasetInfo) -> Sequence[str]:
    """Return the names of the classes, or their numbers if they have no names."""
    return info.class_names or [str(number) for number in range(info.num_classes)]
