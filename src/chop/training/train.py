"""Train a model, test its best epoch, and keep everything in a run folder."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chop.config import TrainConfig
from chop.cost.estimate import summarize_cost
from chop.display.launcher import launcher
from chop.display.numbers import counted
from chop.folder_lock import only_writer
from chop.ir import MaseGraph
from chop.passes.graph import save_mase_graph_interface_pass
from chop.passes.graph.transforms.gradual_pruning import GradualPruning
from chop.passes.graph.transforms.prune import PruneArgs
from chop.runs import Experiment, RunFolder
from chop.tasks import Evaluation
from chop.training.devices import is_main_process, make_fabric
from chop.training.distillation import find_teacher
from chop.training.metrics_log import MetricsLog, check_reporter, open_log
from chop.training.optimizer import make_optimizer
from chop.training.phases import Phases
from chop.training.resume import ResumedRun, find_stopped_run, identity
from chop.training.terminal import TrainingProgress, print_training
from chop.training.threads import limit_threads_for
from chop.training.trainer import Trainer


def train(config: TrainConfig) -> RunFolder:
    """Train the model of `config` and return the run folder."""
    if not is_main_process():
        logging.getLogger("chop").setLevel(logging.ERROR)  # only the first process logs
    experiment = Experiment.load(config)
    with limit_threads_for(experiment, config.batch_size), ExitStack() as lock:
        return _train(config, experiment, lock)


def _train(config: TrainConfig, experiment: Experiment, lock: ExitStack) -> RunFolder:
    """Train; `lock` holds the lock of the run folder until it is closed."""
    experiment, phases = _with_phases(config, experiment)
    trainer, resumed = _make_trainer(config, experiment, phases, lock)
    experiment.log_data()
    folder = _open_folder(trainer, resumed, lock)
    try:
        progress = _run(trainer, folder)
    except KeyboardInterrupt:
        where = f"stopped in epoch {trainer.loop.epoch + 1}, after {counted(trainer.loop.step, 'step')}"
        sys.stderr.write(f"{where}. To resume:\n  {launcher()} train --config {folder.config} --resume\n")
        raise
    except Exception:
        if resumed is None and not trainer.history and trainer.fabric.is_global_zero:
            folder.discard()
        raise
    trainer.load_best(folder)
    test = trainer.evaluate(experiment.data.splits.test)
    if trainer.fabric.is_global_zero:
        summary = _summary(trainer, experiment, test, progress.samples_per_second)
        if experiment.is_graph:  # its weights alone would lose the number formats
            save_mase_graph_interface_pass(MaseGraph(experiment.model), folder.graph)
            sys.stderr.write(f"graph with its number formats: {folder.graph}\n")
            summary["cost"] = summarize_cost({"after": experiment.annotated_graph(num_rows=1).metas()})
        folder.write_summary(summary)
        _plot(trainer, experiment, test, folder)
        print_training(trainer.history, trainer.best, test, experiment.data.dataset_info)
    trainer.fabric.barrier()  # the other processes may read what the first one has written
    return folder


def _with_phases(config: TrainConfig, experiment: Experiment) -> tuple[Experiment, Phases]:
    """Return what changes over the epochs; a model that is pruned becomes a graph, whose layers have masks."""
    pruning = None
    if config.prune_sparsity:
        graph = experiment.annotated_graph(num_rows=2)
        args = PruneArgs(
            sparsity=config.prune_sparsity, scope=config.prune_scope, granularity=config.prune_granularity
        )
        pruning = GradualPruning.of(graph, args, config.prune_epochs or max(1, config.max_epochs // 2))
        experiment = experiment.with_model(graph.model)
    phases = Phases(config, experiment.model, pruning)
    phases.check()
    return experiment, phases


def _make_trainer(
    config: TrainConfig, experiment: Experiment, phases: Phases, lock: ExitStack
) -> tuple[Trainer, ResumedRun | None]:
    """Check all options before anything is written, and prepare the training."""
    if config.max_steps == 0:
        raise ValueError("'max_steps' must be 1 or more, or -1 for no limit, got 0")
    check_reporter(config)
    resumed = find_stopped_run(config, experiment.data.splits.sha256, lock) if config.resume else None
    distillation = find_teacher(config, experiment)
    optimizer = make_optimizer(config, experiment.model)
    fabric = make_fabric(config)
    fabric.launch()
    same = identity(config, experiment.data.splits.sha256)
    trainer = Trainer(
        config,
        fabric,
        experiment.model,
        optimizer,
        experiment.data.splits,
        experiment.meter,
        same,
        experiment.arguments,
        phases,
        distillation,
    )
    return trainer, resumed


def _open_folder(trainer: Trainer, resumed: ResumedRun | None, lock: ExitStack) -> RunFolder:
    """Make the folder of a new run, or restore the run that is resumed."""
    fabric = trainer.fabric
    if resumed is None:
        folder = RunFolder(Path())
        if fabric.is_global_zero:
            folder = RunFolder.create_for(trainer.config)
            lock.enter_context(only_writer(folder.path))
        folder = fabric.broadcast(folder) if fabric.world_size > 1 else folder
        folder.checkpoints.mkdir(exist_ok=True)
        return folder
    try:
        trainer.restore(resumed.checkpoint)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError, OverflowError) as error:
        path, reason = resumed.folder.last_checkpoint, " ".join(str(error).split())
        raise ValueError(f"cannot resume from {path}: it is corrupt ({type(error).__name__}: {reason})") from error
    if fabric.is_global_zero:
        resumed.folder.remove_temporary_files()
        resumed.folder.write_config(trainer.config)
        trainer.keep_best(resumed.folder)  # the run may have been killed just before it did so
    return resumed.folder


def _run(trainer: Trainer, folder: RunFolder) -> TrainingProgress:
    config, loop, is_main = trainer.config, trainer.loop, trainer.fabric.is_global_zero
    done = loop.epoch * loop.num_batches + loop.batch
    progress = TrainingProgress(config.max_epochs, loop.num_batches, done, shown=is_main)
    log = open_log(config, folder, loop.step) if is_main else MetricsLog(Path(os.devnull), None)
    try:
        trainer.run(folder, log, progress)
    finally:
        log.close()
    return progress


def _plot(trainer: Trainer, experiment: Experiment, test: Evaluation, folder: RunFolder) -> None:
    from chop.training.plots import plot_confusion, plot_curves  # here, because importing Matplotlib takes long

    info = experiment.data.dataset_info
    title = f"{trainer.config.model}, data: {info.title}"
    plot_curves(trainer.history, trainer.best, title, folder.curves_plot)
    plot_confusion(test, info, title, folder.confusion_plot)


def _summary(
    trainer: Trainer, experiment: Experiment, test: Evaluation, samples_per_second: float
) -> dict[str, Any]:
    best = trainer.best
    return {
        **experiment.describe("train"),
        "epochs": trainer.loop.epoch,
        "steps": trainer.loop.step,
        "best_epoch": best.epoch,
        "train": {"accuracy": best.train_accuracy, "loss": best.train_loss},
        "validation": {"accuracy": best.val_accuracy, "loss": best.val_loss},
        "test": test.as_dict(),
        "last": asdict(trainer.history[-1]),
        "seconds": round(trainer.seconds, 3),
        "samples_per_second": round(samples_per_second),
        "device": str(trainer.fabric.device),
        "processes": trainer.fabric.world_size,
    }
