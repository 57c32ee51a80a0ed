"""Several processes on one machine; what happens when one dies, or the user interrupts."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from searching.commands import (
    NUM_POINTS,
    check_grid,
    finish,
    front,
    num_done,
    only_run,
    runs,
    search,
    start,
    trials,
    wait_until,
    write_config,
)

pytestmark = pytest.mark.slow


def children(pid: int) -> list[int]:
    """The workers of a command, oldest first; not what else Python starts."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """The grid, searched by one worker that nobody disturbed."""
    write_config(tmp_path / "whole")
    search(tmp_path / "whole")
    check_grid(only_run(tmp_path / "whole"))
    return only_run(tmp_path / "whole")


def test_a_worker_that_is_killed_costs_no_trial(tmp_path: Path, whole: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, "--workers", "3", seconds=0.1)
    wait_until(lambda: bool(runs(tmp_path)) and num_done(only_run(tmp_path)) > 5)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    text = finish(process)
    assert "a worker died (exit code -9); its trial is tried again" in text
    check_grid(only_run(tmp_path))
    assert front(only_run(tmp_path)) == front(whole)
    assert len(front(whole)) > 1


def test_an_interrupt_keeps_what_is_found_and_tells_how_to_go_on(tmp_path: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, "--workers", "2", seconds=0.1)
    wait_until(lambda: bool(runs(tmp_path)) and num_done(only_run(tmp_path)) > 5)
    workers = children(process.pid)
    for pid in (process.pid, *workers):  # as a terminal does
        os.kill(pid, signal.SIGINT)
    text = finish(process, code=130)
    run = only_run(tmp_path)
    assert f"search --config {run / 'run.toml'} --resume" in text
    assert "Traceback" not in text
    states = [trial["state"] for trial in trials(run)]
    assert states.count("complete") == num_done(run) < NUM_POINTS
    assert states.count("running") == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    search(tmp_path, "--config", str(run / "run.toml"), "--resume")
    check_grid(run)


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, "--workers", "2", seconds=1.5)
    wait_until(lambda: bool(runs(tmp_path)) and num_done(only_run(tmp_path)) > 0)
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    text = finish(process, code=130)
    assert "--resume" in text
    assert "Traceback" not in text
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_workers_end_when_the_command_is_killed(tmp_path: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, "--workers", "2", seconds=0.1)
    wait_until(lambda: bool(runs(tmp_path)) and num_done(only_run(tmp_path)) > 2)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert num_done(only_run(tmp_path)) < NUM_POINTS
    search(tmp_path, "--resume", "--workers", "2")
    check_grid(only_run(tmp_path))


def test_memory_is_for_one_worker(tmp_path: Path) -> None:
    write_config(tmp_path)
    text = search(tmp_path, "--storage", "memory", "--workers", "2", code=2)
    assert "--storage memory is for one worker, not for 2" in text
    assert not runs(tmp_path)
    search(tmp_path, "--storage", "memory")
    check_grid(only_run(tmp_path))
