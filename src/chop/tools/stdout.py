"""Silencing what compiled code prints to standard output."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silenced_stdout() -> Iterator[None]:
    """Discard everything that is printed to standard output, also by compiled code, which `sys.stdout` misses."""
    try:
        saved = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    _flush()
    os.dup2(null, 1)
    try:
        yield
    finally:
        _flush()
        os.dup2(saved, 1)
        os.close(saved)
        os.close(null)


def _flush() -> None:
    """Write the buffers of Python and of C to where standard output points now."""
    if sys.stdout is not None:
        sys.stdout.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
