"""Evaluate a model on the test split of its data set, and keep the result in a run folder."""

from __future__ import annotations

import time

from chop.config import TestConfig
from chop.display.progress import ProgressBar
from chop.runs import Experiment, RunFolder
from chop.training.batches import evaluation_batches, to_device
from chop.training.devices import evaluation_device
from chop.training.evaluation import evaluate
from chop.training.terminal import print_test
from chop.training.threads import limit_threads_for


def run_test(config: TestConfig) -> RunFolder:
    """Evaluate the model of `config` and return the run folder."""
    experiment = Experiment.load(config)
    device = evaluation_device(config)
    experiment.warn_if_untrained()
    rows = to_device(experiment.data.splits.test, device.device)
    start = time.perf_counter()
    with limit_threads_for(experiment, config.batch_size), ProgressBar("evaluating", len(rows.labels)) as progress:
        model = device.setup(experiment.model)  # inside, because it may change the type of the weights
        result = evaluate(
            model,
            evaluation_batches(rows, config.batch_size),
            experiment.meter(device.device),
            device.device,
            arguments=experiment.arguments,
            progress=progress,
        )
    seconds = time.perf_counter() - start
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
