"""Independent tasks in several processes on this machine."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from chop.config import ActionConfig
from chop.plugins import load_plugin

Config = TypeVar("Config", bound=ActionConfig)
Item = TypeVar("Item")
Result = TypeVar("Result")

_task: Callable[[Any], Any] | None = None  # of a worker process


def map_in_processes(
    load: Callable[[Config], Callable[[Item], Result]], config: Config, items: Sequence[Item], workers: int
) -> Iterator[Result]:
    """Yield the results of `load(config)(item)` in order; each process calls `load` once.

    The number of threads is divided among the processes.
    """
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // workers)
    arguments = (load, config, threads)
    with ProcessPoolExecutor(workers, context, initializer=_start, initargs=arguments) as pool:
        try:
            yield from pool.map(_run, items)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start(load: Callable[[Any], Callable[[Any], Any]], config: ActionConfig, threads: int) -> None:
    import torch

    global _task
    torch.set_num_threads(threads)
    logging.getLogger("chop").setLevel(logging.ERROR)  # only the first process logs
    for plugin in config.plugins:
        load_plugin(plugin)
    _task = load(config)


def _run(item: Any) -> Any:
    assert _task is not None, "set when the process started"
    return _task(item)
