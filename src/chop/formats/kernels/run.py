"""Running compiled loops on tensors. All functions return None where the eager definition must run instead."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from chop.formats.kernels.compiler import Loop, is_available, load_loop


@dataclass
class LoopSettings:
    """When loops are used."""

    enabled: bool = True
    min_numel_to_load: int = 2**16
    """Elements from which a loop is loaded or compiled; once loaded, it is used for tensors of any size."""
    min_numel_per_thread: int = 2**17


settings = LoopSettings()
_loops: dict[tuple[str, ...], Loop | None] = {}


def find_loop(x: Tensor, *name: str) -> Loop | None:
    """Return a loop that can round `x`."""
    if not _can_run(x):
        return None
    if name not in _loops:
        if x.numel() < settings.min_numel_to_load:
            return None
        _loops[name] = load_loop(*name)
    return _loops[name]


def _can_run(x: Tensor) -> bool:
    """Whether `x` is a plain tensor of float32 numbers in memory, outside of all transformations of torch."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and settings.enabled
        and is_available()
        and type(x) in (Tensor, nn.Parameter)
        and x.dtype is torch.float32
        and x.is_cpu
        and x.layout is torch.strided
        and not (x.requires_grad and torch.is_grad_enabled())
        and x.numel() > 0
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and not torch._C._len_torch_dispatch_stack()
        and not x.is_neg()
    )


def map_elements(loop: Loop, x: Tensor, *parameters: float, size: int = 1) -> Tensor:
    """Return a loop's result for each element, in the memory layout of `x`."""
    y = torch.empty_like(x)
    if y.stride() != x.stride():
        y.copy_(x)
        x = y
    source, target, packed = x.data_ptr(), y.data_ptr(), pack(parameters)

    def run(begin: int, end: int) -> None:
        loop(source + 4 * begin, target + 4 * begin, 1, end - begin, 1, size, packed)

    in_threads(run, x.numel(), x.numel())
    return y


def in_threads(run: Callable[[int, int], None], count: int, numel: int) -> None:
    """Call `run(begin, end)` for ranges that cover 0 to `count`, in as many threads as torch uses."""
    parts = min(torch.get_num_threads(), numel // settings.min_numel_per_thread, count)
    if parts < 2:
        return run(0, count)
    bounds = [count * part // parts for part in range(parts + 1)]
    pending = [_threads().submit(run, begin, end) for begin, end in pairwise(bounds[1:])]
    run(bounds[0], bounds[1])
    for each in pending:
        each.result()


_pool: list[ThreadPoolExecutor] = []


def _threads() -> ThreadPoolExecutor:
    if not _pool:
        _pool.append(ThreadPoolExecutor(thread_name_prefix="chop-kernels"))
    return _pool[0]


os.register_at_fork(after_in_child=_pool.clear)  # threads do not survive a fork


@lru_cache(maxsize=1024)
def pack(parameters: tuple[float, ...]) -> Any:
    """Return float32 parameters in memory."""
    return (ctypes.c_float * len(parameters))(*parameters)
