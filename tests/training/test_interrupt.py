"""The first Ctrl-C waits for the end of a step; the second one does not."""

from __future__ import annotations

import signal
import threading

import pytest

from chop.training.interrupt import Interrupt


def test_the_first_signal_is_recorded_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.requested
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_it_does_nothing_if_inactive_or_outside_the_main_thread() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt(active=False):
        signal.raise_signal(signal.SIGINT)
    entered = []

    def enter() -> None:
        with Interrupt() as interrupt:
            entered.append(interrupt.requested)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [False]
