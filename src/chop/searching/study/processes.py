"""Worker processes on this machine."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import optuna
import torch

from chop.allocator import keep_freed_memory
from chop.config import SearchConfig
from chop.plugins import load_plugin
from chop.runs import RunFolder
from chop.runs.devices import WORKER
from chop.searching.spec import SearchSpec
from chop.searching.study.storage import database_errors_explained, open_database, open_journal
from chop.searching.study.study import POLL_SECONDS, Study
from chop.searching.study.worker import Worker
from chop.tools.logger import set_logging_verbosity
from chop.training.parallel import interrupts_deferred, start_importing

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerJob:
    """What a worker process is given."""

    config: SearchConfig
    folder: RunFolder
    """The run folder, which holds the journal if the study is not in a database."""
    study: str
    num_workers: int
    seconds: float
    """Time during which new trials may be started."""


def prepare_workers() -> None:
    """Start importing what workers need, in a process of which they will be copies.

    It imports torch once for all workers, while this process loads the model and the data.
    """
    start_importing(__name__)


def run_workers(job: WorkerJob, stop: Callable[[], bool], tick: Callable[[], None]) -> None:
    """Start worker processes and return when all have ended; if `stop` is True they end after their trials.

    A worker that crashes leaves a running trial behind, which other workers find and repeat.
    """
    context = multiprocessing.get_context("forkserver")
    workers: list[BaseProcess] = []
    pipes: list[Connection] = []
    try:
        with interrupts_deferred():
            for number in range(job.num_workers):
                receiver, sender = context.Pipe(duplex=False)
                worker = context.Process(target=_work, args=(job, number, receiver), daemon=True)
                worker.start()
                receiver.close()
                workers.append(worker)
                pipes.append(sender)
        _watch(workers, pipes, stop, tick)
    except BaseException:
        for process in workers:
            process.kill()
        raise
    finally:
        for process in workers:
            process.join()
        for pipe in pipes:
            pipe.close()


def _watch(
    workers: list[BaseProcess], pipes: list[Connection], stop: Callable[[], bool], tick: Callable[[], None]
) -> None:
    running = {process.sentinel: process for process in workers}
    while running:
        for sentinel in wait(list(running), timeout=POLL_SECONDS):
            assert isinstance(sentinel, int)
            process = running.pop(sentinel)
            process.join()
            if process.exitcode:
                logger.warning("a worker crashed (exit code %s); its trial will be run again", process.exitcode)
        if stop():
            for pipe in pipes:
                pipe.close()  # a worker stops when its pipe is closed
        tick()


def _work(job: WorkerJob, number: int, pipe: Connection) -> None:
    """Run a worker process. It ends after its trial when the other end of the pipe is closed."""
    os.environ[WORKER] = str(number)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_logging_verbosity("error")  # the parent process logs for all
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)
    keep_freed_memory()
    end = time.monotonic() + job.seconds
    try:
        for plugin in job.config.plugins:
            load_plugin(plugin)
        with database_errors_explained(job.config.storage):
            _run(job, end, pipe)
    except (ValueError, OSError) as error:
        logger.error("%s", error)
        sys.exit(1)


def _end_with_parent() -> None:
    """End this process when its parent has ended, which held the lock of the run folder."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "workers have one"
    parent.join()
    os._exit(1)


def _run(job: WorkerJob, end: float, pipe: Connection) -> None:
    spec = SearchSpec.read(job.config)
    problem = spec.problem()
    storage = open_journal(job.folder) if job.config.storage is None else open_database(job.config.storage)
    study = Study.load(storage, job.study)
    assert study is not None, "it was created before the workers were started"
    study.use_samplers(partial(spec.strategy.make_sampler, spec.config.seed))
    prunes = spec.strategy.halving
    Worker(study, problem, spec.objectives, prunes=prunes, end=end, stop=pipe.poll, waits_for_others=False).run()
