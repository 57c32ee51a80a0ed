"""Running compiled loops on tensors. All functions return None where the eager definition must run instead."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _are_functorch_transforms_active as transforms_are_active
from torch._C import _get_tracing_state as tracing_state
from torch._C import _len_torch_dispatch_stack as len_torch_dispatch_stack
from torch.autograd.forward_ad import unpack_dual
from torch.compiler import is_compiling

from chop.formats.kernels.compiler import Loop, load_loop


@dataclass
class LoopSettings:
    """When loops are used."""

    enabled: bool = True
    min_numel_to_load: int = 2**16
    """Elements from which a loop is loaded or compiled; once loaded, it is used for tensors of any size."""
    min_total_to_load: int = 2**20
    """The same for all tensors together that the loop could have rounded; each counts at least 1024."""
    min_numel_per_thread: int = 2**17


settings = LoopSettings()
_PLAIN = (Tensor, nn.Parameter)
_SUBNORMAL = 5e-324
_loops: dict[tuple[str, ...], Loop | None] = {}
_missed: dict[tuple[str, ...], int] = {}
"""The elements that were rounded without a loop that is not loaded yet."""


def find_loop(x: Tensor, *name: str) -> Loop | None:
    """Return a loop that can round `x`."""
    if not _can_run(x):
        return None
    if name not in _loops:
        _missed[name] = _missed.get(name, 0) + max(x.numel(), 2**10)
        if x.numel() < settings.min_numel_to_load and _missed[name] < settings.min_total_to_load:
            return None
        _loops[name] = load_loop(*name)
    return _loops[name]


def is_plain(x: Tensor) -> bool:
    """Whether `x` is a tensor of no other class, outside of all transformations of torch."""
    return (
        not is_compiling()
        and tracing_state() is None
        and type(x) in _PLAIN
        and not transforms_are_active()
        and not len_torch_dispatch_stack()
    )


def is_transformed(x: Tensor) -> bool:
    """Whether a transform of torch.func is active, or `x` has a forward-mode derivative."""
    return not is_compiling() and (transforms_are_active() or unpack_dual(x).tangent is not None)


def _can_run(x: Tensor) -> bool:
    """Whether `x` is a plain tensor of float32 numbers in memory, and loops compute what torch does."""
    return (
        is_plain(x)
        and settings.enabled
        and _SUBNORMAL > 0.0  # not where `torch.set_flush_denormal` is on: it holds for this thread only
        and x.dtype is torch.float32
        and x.is_cpu
        and x.layout is torch.strided
        and not (x.requires_grad and torch.is_grad_enabled())
        and x.numel() > 0
        and not x.is_neg()
    )


def map_elements(loop: Loop, x: Tensor, *parameters: float) -> Tensor:
    """Return a loop's result for each element, in the memory layout of `x`."""
    y = torch.empty_like(x)
    if not x.is_contiguous() and y.stride() != x.stride():
        y.copy_(x)
        x = y
    source, target, packed, numel = x.data_ptr(), y.data_ptr(), pack(parameters), x.numel()
    if numel < settings.min_numel_per_thread:
        loop(source, target, 1, numel, 1, 1, packed)
        return y

    def run(begin: int, end: int) -> None:
        loop(source + 4 * begin, target + 4 * begin, 1, end - begin, 1, 1, packed)

    in_threads(run, numel, numel)
    return y


def in_threads(run: Callable[[int, int], None], count: int, numel: int) -> None:
    """Call `run(begin, end)` for ranges that cover 0 to `count`, in as many threads as torch uses."""
    parts = num_parts(count, numel)
    if parts < 2:
        return run(0, count)
    bounds = [count * part // parts for part in range(parts + 1)]
    pending = [_threads().submit(run, begin, end) for begin, end in pairwise(bounds[1:])]
    run(bounds[0], bounds[1])
    for each in pending:
        each.result()


def num_parts(count: int, numel: int) -> int:
    """Return into how many parts `in_threads` divides a range of `count`, for a tensor of `numel` elements."""
    parts = numel // settings.min_numel_per_thread
    return min(parts, torch.get_num_threads(), count) if parts > 1 else parts


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="chop-kernels")


os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork


@lru_cache(maxsize=1024)
def pack(parameters: tuple[float, ...]) -> Any:
    """Return float32 parameters in memory."""
    return (ctypes.c_float * len(parameters))(*parameters)
