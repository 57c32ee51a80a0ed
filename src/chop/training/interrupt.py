"""Ctrl-C that waits for the end of a step, so that what is saved then is whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupt:
    """Within it the first Ctrl-C only sets `asked`; the second one interrupts at once."""

    def __init__(self, active: bool = True) -> None:
        self.asked = False
        self._active = active and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Interrupt:
        if self._active:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
