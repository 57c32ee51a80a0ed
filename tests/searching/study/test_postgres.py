"""Several commands that share a PostgreSQL database, which the tests start on the loopback interface."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import optuna
import pytest

from chop.searching.study.storage import open_database
from searching.commands import (
    NUM_CONFIGS,
    check_grid,
    finish,
    front,
    only_run,
    runs,
    search,
    start,
    wait_until,
    write_config,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("copied_commands")]
PASSWORD = "s3cret"


def _programs() -> Path | None:
    """Return the folder of the server programs, which Debian keeps outside the search path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in versions), default=None)


def _missing() -> str | None:
    """Return why the server cannot be started on this machine; None if it can."""
    if _programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() != 0:
        return None
    if shutil.which("setpriv") is None or not any(each.pw_name == "postgres" for each in pwd.getpwall()):
        return "PostgreSQL does not run as root, and there is no user 'postgres' to run it as"
    return None


def _run(*command: str | Path) -> None:
    """Run a command as a user other than root, which PostgreSQL refuses."""
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    subprocess.run([*user, *map(str, command)], check=True, capture_output=True, cwd="/", timeout=120)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a new server and provide the URL of a database that needs a password."""
    if (reason := _missing()) is not None:
        pytest.skip(reason)
    programs = _programs()
    assert programs is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="chop-postgres-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        data = folder / "data"
        secret = ("--auth=scram-sha-256", f"--pwfile={folder / 'password'}")
        _run(programs / "initdb", "-D", data, "-U", "chop", *secret, "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={folder} -c fsync=off"
        _run(programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://chop:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _run(programs / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def counts(url: str, name: str) -> dict[str, int]:
    """Return the number of trials that Optuna itself sees, by state; empty if there is no such study."""
    with closing(open_database(url)) as storage:
        if name not in [study.study_name for study in storage.backend.get_all_studies()]:
            return {}
        study = optuna.load_study(study_name=name, storage=storage.backend)
        states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
    return {state: states.count(state) for state in set(states)}


def has_completed(url: str, name: str, done: int) -> bool:
    return counts(url, name).get("COMPLETE", 0) >= done


def test_three_machines_of_which_one_is_killed_find_the_same_front_as_one(server: str, tmp_path: Path) -> None:
    write_config(tmp_path / "undisturbed")
    search(tmp_path / "undisturbed")
    check_grid(only_run(tmp_path / "undisturbed"))

    write_config(tmp_path)
    where = ("--study", "three", "--storage", server)
    machines = [
        start(tmp_path, *where, "--project-dir", str(tmp_path / f"out{index}"), seconds=0.2) for index in range(3)
    ]
    wait_until(lambda: has_completed(server, "three", 8))
    machines[0].kill()
    machines[0].communicate()
    assert counts(server, "three").get("COMPLETE", 0) < NUM_CONFIGS
    for machine in machines[1:]:
        finish(machine)

    assert counts(server, "three") == {"COMPLETE": NUM_CONFIGS}
    expected = front(only_run(tmp_path / "undisturbed"))
    assert len(expected) > 1
    for index in (1, 2):
        (run,) = (tmp_path / f"out{index}").iterdir()
        check_grid(run)
        assert front(run) == expected
        assert PASSWORD not in (run / "run.toml").read_text()


def test_machines_that_start_at_the_same_time_plan_the_study_once(server: str, tmp_path: Path) -> None:
    write_config(tmp_path, "random", 6)
    machines = [start(tmp_path, "--study", "at once", "--storage", server) for _ in range(3)]
    for machine in machines:
        finish(machine)
    assert len(runs(tmp_path)) == 3
    assert set(counts(server, "at once")) == {"COMPLETE"}
    alone = tmp_path / "alone"
    write_config(alone, "random", 6)
    search(alone)
    assert {str(front(run)) for run in runs(tmp_path)} == {str(front(only_run(alone)))}


def test_a_search_whose_command_and_workers_were_killed_is_resumed(server: str, tmp_path: Path) -> None:
    write_config(tmp_path)
    where = ("--study", "again", "--storage", server)
    process = start(tmp_path, *where, "--workers", "2", seconds=0.05)
    wait_until(lambda: has_completed(server, "again", 5))
    process.kill()
    process.communicate()
    begin = time.monotonic()
    text = search(tmp_path, "--config", str(only_run(tmp_path) / "run.toml"), *where, "--resume")
    check_grid(only_run(tmp_path))
    assert time.monotonic() - begin < 300, text
    assert "all 54 trials are finished" in search(tmp_path, *where, "--resume")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((PASSWORD, "wr0ng"), "password authentication failed"),
        (("/postgres", "/nowhere"), 'database "nowhere" does not exist'),
        (("127.0.0.1:", "127.0.0.1:1"), "."),
    ],
)
def test_database_errors_are_reported_in_one_line(
    server: str, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    write_config(tmp_path)
    text = search(tmp_path, "--storage", server.replace(*change), code=2)
    (line,) = text.strip().splitlines()
    assert line.startswith("ch: error: --storage postgresql://chop@127.0.0.1:")
    assert message in line
    assert PASSWORD not in line
    assert "wr0ng" not in line
    assert not runs(tmp_path)
