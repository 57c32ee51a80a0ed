"""The memory allocator of the process."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path

LARGE_PROCESS = 2**30
"""Bytes of memory from which freed memory is worth returning to the system."""
LARGE_BLOCK = 2**20
"""Bytes of a block, such as the activations of a layer, that a large process returns as soon as it is freed."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> bool:
    """Make glibc reuse freed memory instead of returning it to the system; return False without glibc.

    New pages for large tensors can take six times as long as the computation on them. The process then keeps the
    most memory it has ever used, so the command line and the benchmarks call this, and no import does.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    largest = 2**31 - 1
    return bool(mallopt(_MMAP_THRESHOLD, 2**30) and mallopt(_TRIM_THRESHOLD, largest))


def release_freed_memory() -> None:
    """Return freed memory to the system if the process is large: between two stages that need different memory.

    Graphs are in reference cycles, so the garbage is collected first. From then on large blocks are not kept when
    they are freed: small blocks would take a part of their place, and the memory would grow with every large block.
    """
    if resident_memory() >= LARGE_PROCESS:
        gc.collect()
        trim_freed_memory()


def trim_freed_memory() -> None:
    """Do the same without collecting garbage, in a few milliseconds: for loops, whose memory is full of gaps."""
    if resident_memory() < LARGE_PROCESS:
        return
    library = ctypes.CDLL(None)
    trim, mallopt = getattr(library, "malloc_trim", None), getattr(library, "mallopt", None)
    if trim is not None and mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGE_BLOCK)
        trim(0)


def resident_memory() -> int:
    """Return the bytes of memory that the process has now; 0 if the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
