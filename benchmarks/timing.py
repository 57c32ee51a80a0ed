"""CPU time on one thread: wall-clock time and multi-threaded time vary too much on a shared machine."""

from __future__ import annotations

import math
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread inside the `with` block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cpu_times(*functions: Callable[[], object], repeats: int, warm_up: int | None = None) -> list[float]:
    """Return the median CPU seconds of each function; they alternate, so that all run under the same load.

    By default, two turns are not counted, or none if there is one repeat, which only shows that the functions run.
    """
    warm_up = (2 if repeats > 1 else 0) if warm_up is None else warm_up
    samples: list[list[float]] = [[] for _ in functions]
    with one_thread():
        for turn in range(warm_up + repeats):
            for function, taken in zip(functions, samples, strict=True):
                start = time.process_time()
                function()
                if turn >= warm_up:
                    taken.append(time.process_time() - start)
    return [statistics.median(taken) for taken in samples]


def warm_times(*functions: Callable[[], object], repeats: int, rounds: int = 20) -> list[float]:
    """Return the minimum CPU seconds of each function, called again and again with its data in the cache.

    The functions take turns in several rounds: a shared machine can be slow for a second.
    """
    rounds = min(rounds, repeats)
    found = [math.inf for _ in functions]
    with one_thread():
        for _ in range(rounds):
            for index, function in enumerate(functions):
                for _ in range(2 + repeats // rounds):
                    start = time.process_time()
                    function()
                    found[index] = min(found[index], time.process_time() - start)
    return found


def process_times(*commands: Sequence[str], repeats: int) -> list[float]:
    """Return the median CPU seconds of each command, each in a new process; they alternate.

    The first turn is not counted, unless it is the only one: it writes bytecode files, as Python does unless
    PYTHONDONTWRITEBYTECODE is set.
    """
    warm_up = 1 if repeats > 1 else 0
    samples: list[list[float]] = [[] for _ in commands]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for turn in range(warm_up + repeats):
        for command, taken in zip(commands, samples, strict=True):
            start = _children_time()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            if turn >= warm_up:
                taken.append(_children_time() - start)
    return [statistics.median(taken) for taken in samples]


def _children_time() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
