"""Commands in copies of one process that has imported the package: they start in 20 ms instead of 3 s.

For tests of what commands do. A command is killed with its client. How a process starts and ends, and what it does
when a signal arrives, needs a real one.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

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

    def run_python(self, code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `python -c CODE ARGUMENTS...` in a folder."""
        name = uuid.uuid4().hex
        file = self._address.with_name(f"{name}.py")
        file.write_text(code)
        command = self.write_command(file.with_suffix(""), str(file))
        return subprocess.run([str(command), *arguments], cwd=folder, capture_output=True, text=True)


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
        try:
            yield CommandServer(address)
        finally:
            process.terminate()


def _serve(address: str) -> None:
    """Answer each request in a copy of this process."""
    sys.path.pop(0)  # this folder
    for name in ("torch", *PRELOADED, *_modules_of_commands()):
        importlib.import_module(name)
    for each in weakref.finalize._registry:  # type: ignore[attr-defined]
        each.atexit = False  # a command need not clean up what others use
    gc.collect()
    gc.freeze()  # a garbage collection in a copy would write to, and so copy, the memory of all objects
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(address)
        listener.listen()
        selector.register(listener, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            key, _ = selector.select()[0]
            if key.fileobj is listener:
                command = _start(listener.accept()[0])
                selector.register(command.end, selectors.EVENT_READ, command)
                selector.register(command.connection, selectors.EVENT_READ, command)
                continue
            command = key.data
            if key.fileobj is command.connection:  # the client was killed
                os.kill(command.process, signal.SIGKILL)
            else:
                selector.unregister(command.end)
                command.finish()
            with suppress(KeyError):  # the client was killed, and now its command has ended
                selector.unregister(command.connection)


class _Command(NamedTuple):
    """A command that runs."""

    connection: socket.socket
    """To its client."""
    process: int
    end: int
    """A file that can be read when the process has ended."""

    def finish(self) -> None:
        """Send the exit code to the client."""
        _, status = os.waitpid(self.process, 0)
        os.close(self.end)
        with suppress(BrokenPipeError):
            self.connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _modules_of_commands() -> list[str]:
    from chop.config import ACTIONS, engine_of

    return ["chop.api", *(engine_of(action)[0] for action in ACTIONS)]


def _start(connection: socket.socket) -> _Command:
    """Run the command of a client in a copy of this process."""
    request, files, *_ = socket.recv_fds(connection, 1000, 3)
    while not request.endswith(b"\n"):
        request += connection.recv(2**16)
    process = os.fork()
    if process:
        for file in files:
            os.close(file)
        return _Command(connection, process, os.pidfd_open(process))
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    code = _run(*json.loads(request))
    threading._shutdown()  # type: ignore[attr-defined]  # waits for other threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # freeing all objects would write to, and so copy, most of the memory: 0.4 s


def _run(words: list[str], folder: str, environment: dict[str, str]) -> int:
    """Run a command, and return the exit code that Python would end with."""
    try:
        _run_module_or_file(words, folder, environment)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001  # prints it, as Python does
        traceback.print_exc()
        return 1
    return 0


def _run_module_or_file(words: list[str], folder: str, environment: dict[str, str]) -> None:
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
