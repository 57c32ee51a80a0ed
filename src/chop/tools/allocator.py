"""Keep freed memory in the process."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> bool:
    """Let glibc hand freed buffers out again instead of giving them back; False where there is no glibc.

    Fresh pages of large tensors cost up to six times the work done on them. The price is that the process keeps
    the most memory it ever had, so that this is for the command line and benchmarks, never for an import.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    largest = 2**31 - 1
    return bool(mallopt(_MMAP_THRESHOLD, 2**30) and mallopt(_TRIM_THRESHOLD, largest))
