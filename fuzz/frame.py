"""The cases of an area: drawn from a seed, checked in a child process, and written as tests if they fail."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from pprint import pformat
from random import Random
from types import FrameType
from typing import IO, Any, Protocol, cast

import fuzz.areas

TIME_LIMIT = 30.0  # seconds per case, unless the area has its own
MAX_FAILURES = 50  # per area
MAX_LINES = 40  # of what a crashed process wrote
REPORT_SECONDS = 10


class Area(Protocol):
    """What a file in `fuzz/areas/` defines; a case is plain data."""

    def draw(self, random: Random) -> Any: ...
    def check(self, case: Any, folder: Path) -> None: ...


class HangError(Exception):
    """A case took longer than its time limit."""


@dataclass(frozen=True)
class Failure:
    """A case that broke a promise."""

    area: str
    seed: int
    number: int
    case: object
    error: str  # the traceback

    def test_source(self) -> str:
        """Return a test file that repeats the case."""
        comment = "".join(f"# {line}\n" for line in self.error.splitlines()[-20:])
        return (
            f'"""Case {self.number} of `python -m fuzz --seed {self.seed} {self.area}`."""\n\n'
            "from math import inf, nan  # noqa: F401  # floats in the case\n"
            "from pathlib import Path\n\n"
            "from fuzz.frame import check_case\n\n"
            f"CASE = {pformat(self.case, width=110, sort_dicts=False)}\n\n\n"
            f"def test_{self.area}_{self.seed}_{self.number}(tmp_path: Path) -> None:\n"
            f"    check_case({self.area!r}, CASE, tmp_path)\n\n\n{comment}"
        )

    def write(self, folder: Path) -> Path:
        """Write the test file, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"test_{self.area}_{self.seed}_{self.number}.py"
        path.write_text(self.test_source(), encoding="utf-8")
        return path


@dataclass
class Progress:
    """The cases of an area until now, and when to stop."""

    area: str
    seed: int
    end: float
    """By `time.monotonic()`, which all processes share."""
    max_cases: int | None
    num_cases: int = 0
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.area}: {self.num_cases} cases, {len(self.failures)} failures"

    @property
    def is_over(self) -> bool:
        """Whether no more cases are wanted; every area gets at least one."""
        if self.num_cases == 0:
            return False
        full = self.num_cases == self.max_cases or len(self.failures) >= MAX_FAILURES
        return full or time.monotonic() >= self.end

    def add(self, case: object, error: str | None) -> None:
        """Count the next case, and keep it if it failed."""
        if error is not None:
            self.failures.append(Failure(self.area, self.seed, self.num_cases, case, error))
        self.num_cases += 1


def area_names() -> list[str]:
    """Return the names of all areas: the files in `fuzz/areas/`."""
    return sorted(module.name for module in pkgutil.iter_modules(fuzz.areas.__path__))


def draw_case(area: str, seed: int, number: int) -> Any:
    """Return a case of an area; it depends on the seed and its number only."""
    return _load(area).draw(Random(f"{area} {seed} {number}"))


@cache
def prepare_area(area: str) -> None:
    """Run what an area needs once per process, without a time limit."""
    getattr(_load(area), "prepare", lambda: None)()


def check_case(area: str, case: object, folder: Path) -> None:
    """Check a case with `folder` as the current folder; raise the error, or HangError after the time limit."""
    module = _load(area)
    prepare_area(area)
    with chdir(folder), _time_limit(getattr(module, "TIME_LIMIT", TIME_LIMIT)):
        module.check(case, folder)


def error_of(area: str, case: object) -> str | None:
    """Check a case in a folder that is deleted afterwards, and return the traceback of its error, if any."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        try:
            check_case(area, case, Path(folder))
        except (Exception, SystemExit):  # noqa: BLE001  # whatever is raised is the finding
            return traceback.format_exc()
    return None


def run_area(area: str, seed: int, seconds: float, max_cases: int | None = None) -> Progress:
    """Check cases in a child process until the time is over; after a crash, another one continues."""
    progress = Progress(area, seed, time.monotonic() + seconds, max_cases)
    while not progress.is_over:
        with tempfile.TemporaryFile("w+") as log:
            _run_until_crash(progress, log)
    return progress


def _run_until_crash(progress: Progress, log: IO[str]) -> None:
    """Add the results of a child process until it ends, and a failure if it crashes or hangs."""
    context = multiprocessing.get_context("fork")  # cheap here: this process has not imported torch
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run_cases, args=(progress, theirs, log))
    child.start()
    theirs.close()
    case: Any = None
    next_report = time.monotonic() + REPORT_SECONDS
    with suppress(EOFError):
        while True:
            case = ours.recv()
            progress.add(case, ours.recv())
            if time.monotonic() > next_report:
                print(progress, file=sys.stderr)
                next_report = time.monotonic() + REPORT_SECONDS
    child.join()
    if child.exitcode:
        progress.add(case, _describe_crash(child.exitcode, log))


def _run_cases(progress: Progress, connection: Connection, log: IO[str]) -> None:
    """Send each case and then its error or None, until no more are wanted."""
    os.dup2(log.fileno(), 2)  # what compiled code and faulthandler write about a crash
    faulthandler.enable(file=2)
    prepare_area(progress.area)
    while not progress.is_over:
        case = draw_case(progress.area, progress.seed, progress.num_cases)
        connection.send(case)
        error = error_of(progress.area, case)
        connection.send(error)
        progress.add(case, error)


def _describe_crash(code: int, log: IO[str]) -> str:
    """Return what faulthandler wrote about the crash, and how the process ended."""
    log.seek(0)
    written = log.read()
    start = max(written.rfind(marker) for marker in ("Fatal Python error", "Timeout ("))
    lines = written[start:].splitlines()[:MAX_LINES] if start >= 0 else written.splitlines()[-MAX_LINES:]
    reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return "\n".join([*lines, f"the process ended with {reason}"])


def _load(area: str) -> Area:
    return cast(Area, import_module(f"fuzz.areas.{area}"))


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise HangError in the main thread after this many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError(f"the case took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    # For compiled code that does not return to Python. 2: pytest replaces sys.stderr by one without a number.
    faulthandler.dump_traceback_later(3 * seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
