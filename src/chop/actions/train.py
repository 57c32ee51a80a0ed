"""`ch train`: a model trained on a data set, the best of it tested, and everything kept."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chop.actions.config import TrainConfig
from chop.actions.run_folder import describe_run, launcher, make_run_folder, write_config, write_summary
from chop.actions.setting import Setting, prepare
from chop.actions.training.devices import is_main_process, make_fabric
from chop.actions.training.log import MetricsLog, check_reporter, open_log
from chop.actions.training.loop import Training
from chop.actions.training.metrics import Evaluation
from chop.actions.training.optimizer import make_optimizer
from chop.actions.training.progress import Progress
from chop.actions.training.report import report_training
from chop.actions.training.resume import CHECKPOINTS, Resumed, find_run, identity
from chop.ir import MaseGraph
from chop.passes.graph import save_mase_graph_interface_pass


def train(config: TrainConfig) -> Path:
    """Train as `config` says; the folder of the run is returned."""
    if not is_main_process():
        logging.getLogger("chop").setLevel(logging.ERROR)  # the first process speaks for all
    setting = prepare(config)
    with setting.fitting_threads(config.batch_size):
        return _train(config, setting)


def _train(config: TrainConfig, setting: Setting) -> Path:
    training, resumed = _make_training(config, setting)
    folder = _enter_folder(training, resumed)
    try:
        progress = _run(training, folder)
    except KeyboardInterrupt:
        where = f"stopped in epoch {training.epoch + 1}, after {training.step} steps"
        sys.stderr.write(f"{where}. To go on:\n  {launcher()} train --config {folder / 'run.toml'} --resume\n")
        raise
    training.use_best(folder / CHECKPOINTS)
    test = training.evaluate(setting.data.splits.test)
    if training.fabric.is_global_zero:
        _save_graph(setting, folder)
        write_summary(folder, _summary(training, setting, test, progress.samples_per_second))
        report_training(training.history, training.best, test, config.model, setting.data.dataset_info, folder)
    return folder


def _make_training(config: TrainConfig, setting: Setting) -> tuple[Training, Resumed | None]:
    """All that can be wrong is told here, before anything is written."""
    if config.max_steps == 0:
        raise ValueError("'max_steps' must be 1 or more, or -1 for no limit, got 0")
    check_reporter(config)
    resumed = find_run(config, setting.data_hash) if config.resume else None
    optimizer = make_optimizer(config, setting.model)
    fabric = make_fabric(config)
    fabric.launch()
    same = identity(config, setting.data_hash)
    return Training(
        config, fabric, setting.model, optimizer, setting.data.splits, setting.num_classes, same
    ), resumed


def _enter_folder(training: Training, resumed: Resumed | None) -> Path:
    """The folder of a new run, or of the one that goes on."""
    fabric = training.fabric
    if resumed is None:
        folder = make_run_folder(training.config) if fabric.is_global_zero else Path()
        folder = fabric.broadcast(folder) if fabric.world_size > 1 else folder
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        return folder
    training.restore(resumed.content)
    if fabric.is_global_zero:
        write_config(training.config, resumed.folder)
        training.keep_best(resumed.folder / CHECKPOINTS)  # a kill may have come before it
    return resumed.folder


def _run(training: Training, folder: Path) -> Progress:
    config, first = training.config, training.fabric.is_global_zero
    done = training.epoch * training.num_batches + training.batch
    progress = Progress(config.max_epochs, training.num_batches, done, shown=first)
    log = open_log(config, folder, training.step) if first else MetricsLog(Path(os.devnull), None)
    try:
        training.run(folder / CHECKPOINTS, log, progress)
    finally:
        log.close()
    return progress


def _save_graph(setting: Setting, folder: Path) -> None:
    """A graph that was trained further is kept as a graph: its weights alone would lose the number formats."""
    if setting.is_graph:
        graph = MaseGraph(setting.model.cpu())
        place = folder / "software" / "transform" / "transformed_ckpt"
        save_mase_graph_interface_pass(graph, place)
        sys.stderr.write(f"the graph with its number formats: {place}\n")


def _summary(training: Training, setting: Setting, test: Evaluation, samples_per_second: float) -> dict[str, Any]:
    best = training.best
    return {
        **describe_run("train", training.config, setting),
        "epochs": training.epoch,
        "steps": training.step,
        "best_epoch": best.epoch,
        "train": {"accuracy": best.train_accuracy, "loss": best.train_loss},
        "validation": {"accuracy": best.val_accuracy, "loss": best.val_loss},
        "test": {"accuracy": test.accuracy, "loss": test.loss, "confusion": test.confusion.tolist()},
        "last": asdict(training.history[-1]),
        "seconds": round(training.seconds, 3),
        "samples_per_second": round(samples_per_second),
        "device": str(training.fabric.device),
        "processes": training.fabric.world_size,
    }
