"""Tasks in several processes: results, errors and Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer

import pytest

from chop.config import TrainConfig
from chop.training.parallel import map_in_processes

pytestmark = pytest.mark.slow
SLOW = 30.0


def load(config: TrainConfig) -> Callable[[float], int]:
    def wait(seconds: float) -> int:
        (config.project_dir / str(os.getpid())).touch()
        if seconds < 0:
            raise ValueError("seconds < 0")
        time.sleep(seconds)
        return int(1000 * seconds)

    return wait


def test_results_are_in_order(train_config: TrainConfig) -> None:
    train_config.project_dir.mkdir()
    assert list(map_in_processes(load, train_config, [0.2, 0.1, 0.0], 2)) == [200, 100, 0]


def test_an_error_ends_the_other_processes(train_config: TrainConfig) -> None:
    train_config.project_dir.mkdir()
    start = time.monotonic()
    with pytest.raises(ValueError, match="seconds < 0"):
        list(map_in_processes(load, train_config, [-1, SLOW], 2))
    assert time.monotonic() - start < SLOW
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("is_running", [False, True], ids=["at the start", "later"])
def test_ctrl_c_ends_all_processes_without_messages(
    is_running: bool, train_config: TrainConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    train_config.project_dir.mkdir()
    pids: list[str] = []

    def interrupt() -> None:
        while is_running and len(pids) < 2:
            pids[:] = os.listdir(train_config.project_dir)
            time.sleep(0.01)
        for pid in (*map(int, pids), os.getpid()):  # as a terminal does
            os.kill(pid, signal.SIGINT)

    timer = Timer(0.01, interrupt)
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(map_in_processes(load, train_config, [SLOW, SLOW], 2))
    timer.join()
    assert time.monotonic() - start < SLOW
    assert not any((Path("/proc") / pid).exists() for pid in pids)
    assert capfd.readouterr() == ("", "")
