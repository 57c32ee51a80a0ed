"""Commands in copies of one process that has imported the package: they start in 20 ms instead of 3 s.

For tests of what commands do. A command is killed with its client. How a process starts, and what it does when a
signal arrives, needs a real one.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What commands import when they need it. How real processes start is tested in `cli` and `test_launcher.py`.
PRELOADED = (
    "alembic.command",
    "alkaid.trace",
    "lightning_fabric",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "numba",
    "optuna.storages._rdb.storage",
    "pandas",
    "pyarrow.parquet",
    "psycopg",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.ensemble",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "torch._dynamo",
    "torch.export",
)
CLIENT = """#!{python} -SE
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = json.dumps([{words!r} + sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n"
socket.send_fds(connection, [request[:1000]], [0, 1, 2])
connection.sendall(request[1000:])
code = connection.recv(16)
sys.exit(int(code) if code else "the command server ended")
"""


class CommandServer:
    """A process that waits for commands, which run in copies of it."""

    def __init__(self, address: Path) -> None:
        self._address = address

    def write_command(self, path: Path, *words: str) -> Path:
        """Write an executable that runs `python WORDS...` with its own arguments added."""
        path.write_text(CLIENT.format(python=sys.executable, address=str(self._address), words=list(words)))
        path.chmod(0o755)
        return path


@contextmanager
def started(folder: Path) -> Iterator[CommandServer]:
    """Start a server, whose socket is in `folder`, and end it after the `with` block."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    address = folder / "commands"
    with subprocess.Popen(
        [sys.executable, __file__, str(address)], env=environment, cwd=folder, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield CommandServer(address)
        process.terminate()


def _serve(address: str) -> None:
    """Answer each request in a copy of this process."""
    sys.path.pop(0)  # this folder
    for name in ("torch", *PRELOADED, *_modules_of_commands()):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a garbage collection in a copy would write to, and so copy, the memory of all objects
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
            with suppress(ChildProcessError):  # when all copies that have ended were waited for
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
    _answer(connection)


def _modules_of_commands() -> list[str]:
    import chop.actions

    return ["chop.api", *(each.name for each in pkgutil.iter_modules(chop.actions.__path__, "chop.actions."))]


def _answer(connection: socket.socket) -> None:
    """Run a command in another copy, which ends like a process of its own, and send its exit code."""
    request, files, *_ = socket.recv_fds(connection, 1000, 3)
    while not request.endswith(b"\n"):
        request += connection.recv(2**16)
    process = os.fork()
    if process:
        end = os.pidfd_open(process)
        ready, _, _ = select.select([end, connection.fileno()], [], [])
        if end not in ready:  # the client was killed
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        with suppress(BrokenPipeError):
            connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    _run(*json.loads(request))


def _run(words: list[str], folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).absolute().parent))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _serve(sys.argv[1])
