"""Independent tasks in several processes on this machine."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from typing import Any, TypeVar

from chop.config import ActionConfig
from chop.plugins import load_plugin
from chop.runs.devices import WORKER

Config = TypeVar("Config", bound=ActionConfig)
Item = TypeVar("Item")
Result = TypeVar("Result")

_task: Callable[[Any], Any] | None = None  # of a worker process


def map_in_processes(
    load: Callable[[Config], Callable[[Item], Result]], config: Config, items: Sequence[Item], workers: int
) -> Iterator[Result]:
    """Yield the results of `load(config)(item)` in order; each process calls `load` once.

    Where the system allows it, the processes are copies of one that has imported torch. The number of threads is
    divided among them.
    """
    has_copies = "forkserver" in multiprocessing.get_all_start_methods()
    if has_copies:
        start_importing(load.__module__)
    context = multiprocessing.get_context("forkserver" if has_copies else "spawn")
    threads = max(1, (os.cpu_count() or 1) // workers)
    others = multiprocessing.active_children()
    numbers = context.SimpleQueue()
    for number in range(workers):
        numbers.put(number)
    with ProcessPoolExecutor(
        workers, context, initializer=_start, initargs=(load, config, threads, numbers)
    ) as pool:
        try:
            with interrupts_deferred():
                results = pool.map(_run, items)  # starts the processes
            yield from results
        except BaseException:  # leaving `with` waits for the processes
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
            raise


def start_importing(module: str) -> None:
    """Start a process that imports a module, and of which processes of the kind `forkserver` will be copies.

    They all ignore Ctrl-C, which a terminal sends to them too: the process that started them stops them.
    """
    from multiprocessing import forkserver  # not on every system

    multiprocessing.set_forkserver_preload([module])
    with _on_interrupt(signal.SIG_IGN):
        forkserver.ensure_running()


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C take effect at the end of the block: processes that are just starting would print errors."""
    pressed: list[int] = []
    with _on_interrupt(lambda number, frame: pressed.append(number)):
        yield
    if pressed:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _on_interrupt(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start(
    load: Callable[[Any], Callable[[Any], Any]], config: ActionConfig, threads: int, numbers: SimpleQueue[int]
) -> None:
    import torch

    global _task
    os.environ[WORKER] = str(numbers.get())
    torch.set_num_threads(threads)
    logging.getLogger("chop").setLevel(logging.ERROR)  # only the first process logs
    for plugin in config.plugins:
        load_plugin(plugin)
    _task = load(config)


def _run(item: Any) -> Any:
    assert _task is not None, "set when the process started"
    return _task(item)
