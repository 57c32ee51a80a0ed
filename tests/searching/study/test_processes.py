"""Several workers on one machine: crashes of workers, and interrupts by the user."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from searching.commands import (
    NUM_CONFIGS,
    check_grid,
    finish,
    front,
    num_done,
    num_started,
    only_run,
    runs,
    search,
    start,
    trials,
    wait_until,
    write_config,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("copied_commands")]


def children(pid: int) -> list[int]:
    """Return the worker processes of a command, oldest first: copies of the process that imports for all."""
    servers = [child for child in _children(pid) if b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return [worker for server in servers for worker in _children(server)]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def undisturbed(tmp_path: Path) -> Path:
    """The grid, searched by one worker without interruption."""
    write_config(tmp_path / "undisturbed")
    search(tmp_path / "undisturbed")
    check_grid(only_run(tmp_path / "undisturbed"))
    return only_run(tmp_path / "undisturbed")


def test_no_trial_is_lost_when_a_worker_is_killed(tmp_path: Path, undisturbed: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, "--workers", "3", seconds=0.1, real=True)
    wait_until(lambda: bool(runs(tmp_path)) and num_done(only_run(tmp_path)) > 5)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    text = finish(process)
    assert "a worker crashed (exit code -9); its trial will be run again" in text
    check_grid(only_run(tmp_path))
    assert front(only_run(tmp_path)) == front(undisturbed)
    assert len(front(undisturbed)) > 1


def test_an_interrupt_writes_the_results_and_shows_how_to_resume(tmp_path: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, "--workers", "2", seconds=0.1, real=True)
    wait_until(lambda: bool(runs(tmp_path)) and num_done(only_run(tmp_path)) > 5)
    workers = children(process.pid)
    for pid in (process.pid, *workers):  # as a terminal does
        os.kill(pid, signal.SIGINT)
    text = finish(process, code=130)
    run = only_run(tmp_path)
    assert f"search --config {run / 'run.toml'} --resume" in text
    assert "Traceback" not in text
    states = [trial["state"] for trial in trials(run)]
    assert states.count("complete") == num_done(run) < NUM_CONFIGS
    assert states.count("running") == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    search(tmp_path, "--config", str(run / "run.toml"), "--resume")
    check_grid(run)


def test_a_second_interrupt_ends_immediately(tmp_path: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, "--workers", "2", seconds=1.5, real=True)
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
    process = start(tmp_path, "--workers", "2", seconds=0.1, real=True)
    wait_until(lambda: bool(runs(tmp_path)) and num_done(only_run(tmp_path)) > 2)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert num_done(only_run(tmp_path)) < NUM_CONFIGS
    search(tmp_path, "--resume", "--workers", "2")
    check_grid(only_run(tmp_path))


def test_workers_end_during_a_trial_when_the_command_is_killed(tmp_path: Path) -> None:
    """It held the lock of the run folder; a trial can take hours."""
    write_config(tmp_path)
    file = tmp_path / "slow_format.py"
    text = file.read_text().replace("import os\n", "import multiprocessing\nimport os\n")
    file.write_text(text.replace("time.sleep(", "time.sleep(600 if multiprocessing.parent_process() else "))
    process = start(tmp_path, "--workers", "2", real=True)
    wait_until(lambda: bool(runs(tmp_path)) and num_started(only_run(tmp_path)) == 2)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), seconds=60)


def test_a_study_in_memory_allows_one_worker(tmp_path: Path) -> None:
    write_config(tmp_path)
    text = search(tmp_path, "--storage", "memory", "--workers", "2", code=2)
    assert "--storage memory allows only one worker, got 2" in text
    assert not runs(tmp_path)
    search(tmp_path, "--storage", "memory")
    check_grid(only_run(tmp_path))
