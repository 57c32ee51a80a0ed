"""Commands in copies of one process end like those in processes of their own."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from command_server import CommandServer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('done')", (0, "done\n", "")),
        ("import sys; sys.exit(130)", (130, "", "")),
        ("import sys; sys.exit('reason')", (1, "", "reason\n")),
        ("import atexit; atexit.register(print, 'at exit')", (0, "at exit\n", "")),
        ("import threading; threading.Timer(0.1, print, ['later']).start()", (0, "later\n", "")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", (-9 % 256, "", "")),
    ],
)
def test_exit_codes_and_output_are_those_of_a_process(
    code: str, expected: tuple[int, str, str], tmp_path: Path, command_server: CommandServer
) -> None:
    done = command_server.run_python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_errors_are_printed(tmp_path: Path, command_server: CommandServer) -> None:
    done = command_server.run_python("raise ValueError('wrong')", tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: wrong\n")


def test_a_command_is_killed_with_its_client(tmp_path: Path, command_server: CommandServer) -> None:
    (tmp_path / "command.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    command = command_server.write_command(tmp_path / "command", "command.py")
    with subprocess.Popen([str(command)], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        process = Path("/proc") / client.stdout.readline().strip()
        assert process.exists()
        client.kill()
    for _ in range(100):
        if not process.exists():
            break
        time.sleep(0.05)
    assert not process.exists()
