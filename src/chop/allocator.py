"""The memory allocator of the process."""

from __future__ import annotations

import ctypes
import sys

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
