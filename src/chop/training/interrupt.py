"""Ctrl-C that waits for the end of a step, so that a consistent state can be saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupt:
    """A context in which the first Ctrl-C only sets `requested`; the second one interrupts immediately."""

    def __init__(self, active: bool = True) -> None:
        self.requested = False
        self._active = active and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Interrupt:
        if self._active:
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
