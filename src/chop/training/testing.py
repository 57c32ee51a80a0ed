"""Evaluate a model on the test split of its data set, and keep the result in a run folder."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chop.config import TestConfig
from chop.display.launcher import option_name
from chop.display.progress import ProgressBar
from chop.runs import Experiment, RunFolder
from chop.tasks import Evaluation, get_task
from chop.training.batches import evaluation_batches, to_device
from chop.training.devices import OneDevice, evaluation_device
from chop.training.evaluation import evaluate
from chop.training.terminal import print_test
from chop.training.threads import limit_threads_for

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def run_test(config: TestConfig) -> RunFolder:
    """Evaluate the model of `config` and return the run folder."""
    experiment = Experiment.load(config)
    device = evaluation_device(config)
    experiment.warn_if_untrained()
    start = time.perf_counter()
    with limit_threads_for(experiment, config.batch_size):
        original = None
        if get_task(config.task).compares:
            if experiment.original is None:
                raise ValueError(
                    f"the task '{config.task}' compares a changed model with its original: load the run or the "
                    f"graph of the changed one with {option_name('load')}"
                )
            original = _evaluate(experiment.original, device, "evaluating the original")
        result = _evaluate(experiment, device, "evaluating", original)
    seconds = time.perf_counter() - start
    experiment.log_data()
    folder = RunFolder.create_for(config)
    metrics = {f"test_{name}": value for name, value in result.metrics.items()}
    folder.write_metrics([{"step": 0, "epoch": 0, **metrics}])
    folder.write_summary(
        {
            **experiment.describe("test"),
            "checkpoint": None if config.load_name is None else str(config.load_name),
            "test": result.as_dict(),
            "seconds": round(seconds, 3),
            "device": str(device.device),
        }
    )
    info = experiment.data.dataset_info
    if result.confusion is not None:
        from chop.training.plots import plot_confusion  # here, because importing Matplotlib takes long

        plot_confusion(result, info, f"{config.model}, data: {info.title}", folder.confusion_plot)
    print_test(result, info)
    return folder


def _evaluate(
    experiment: Experiment, device: Fabric | OneDevice, title: str, original: Evaluation | None = None
) -> Evaluation:
    rows = to_device(experiment.data.splits.test, device.device)
    with ProgressBar(title, len(rows.labels)) as progress:
        return evaluate(
            device.setup(experiment.model),  # may change the type of the weights
            evaluation_batches(rows, experiment.config.batch_size),
            experiment.meter(device.device, original),
            device.device,
            arguments=experiment.arguments,
            progress=progress,
        )
