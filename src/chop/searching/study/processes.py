"""Several processes on this machine that work on the same study."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import optuna
import torch

from chop.config import SearchConfig
from chop.plugins import load_plugin
from chop.runs import RunFolder
from chop.searching.plan import Plan
from chop.searching.study.storage import explaining, open_database, open_journal
from chop.searching.study.study import POLL, Study
from chop.searching.study.worker import Worker
from chop.tools.allocator import keep_freed_memory
from chop.tools.logger import set_logging_verbosity

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """What a process needs to know."""

    config: SearchConfig
    folder: RunFolder
    """Holds the journal, if the study is in one."""
    study: str
    num_workers: int
    seconds: float
    """How long new trials may be begun."""


def work_in_processes(job: Job, stop: Callable[[], bool], tick: Callable[[], None]) -> None:
    """Start the workers, and return when all of them have ended; `stop` makes them end after their trials.

    A worker that dies leaves a trial behind, for the others to find.
    """
    context = multiprocessing.get_context("spawn")
    workers: list[BaseProcess] = []
    wires: list[Connection] = []
    try:
        with _no_interrupts():
            for _ in range(job.num_workers):
                listen, tell = context.Pipe(duplex=False)
                worker = context.Process(target=_work, args=(job, listen), daemon=True)
                worker.start()
                listen.close()
                workers.append(worker)
                wires.append(tell)
        _watch(workers, wires, stop, tick)
    except BaseException:
        for each in workers:
            each.kill()
        raise
    finally:
        for each in workers:
            each.join()
        for tell in wires:
            tell.close()


def _watch(
    workers: list[BaseProcess], wires: list[Connection], stop: Callable[[], bool], tick: Callable[[], None]
) -> None:
    living = {process.sentinel: process for process in workers}
    while living:
        for sentinel in wait(list(living), timeout=POLL):
            assert isinstance(sentinel, int)
            process = living.pop(sentinel)
            process.join()
            if process.exitcode:
                logger.warning("a worker died (exit code %s); its trial is tried again", process.exitcode)
        if stop():
            for tell in wires:
                tell.close()  # which is how they know
        tick()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """What is started within does not hear Ctrl-C, which a terminal sends to all: this process tells it to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(job: Job, wire: Connection) -> None:
    """The whole life of a worker. The wire is cut to end it, or by the death of the process that started it."""
    set_logging_verbosity("error")  # the first process speaks for all
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)
    keep_freed_memory()
    end = time.monotonic() + job.seconds
    try:
        for plugin in job.config.plugins:
            load_plugin(plugin)
        with explaining(job.config.storage):
            _run(job, end, wire)
    except (ValueError, OSError) as error:
        logger.error("%s", error)
        sys.exit(1)


def _run(job: Job, end: float, wire: Connection) -> None:
    plan = Plan.read(job.config)
    problem = plan.problem()
    place = open_journal(job.folder) if job.config.storage is None else open_database(job.config.storage)
    with place.presence:
        study = Study.load(place, job.study)
        assert study is not None, "it was made before the workers were started"
        study.use(partial(plan.strategy.make_sampler, plan.config.seed, num_workers=job.num_workers))
        Worker(
            study,
            problem,
            plan.objectives,
            halving=plan.strategy.halving,
            end=end,
            stop=wire.poll,
            stays=False,
        ).run()
