"""Running cases in a child process: a fatal signal or a hang is a failure, and the results so far are kept."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import IO, Any

from fuzz.frame import MAX_FAILURES, Failure, Result, draw_case, prepare_area, run_case

REPORT_SECONDS = 10
MAX_LINES = 40  # of what a crashed process wrote


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

    @property
    def is_over(self) -> bool:
        """Whether no more cases are wanted; every area gets at least one."""
        if self.num_cases == 0:
            return False
        full = self.num_cases == self.max_cases or len(self.failures) >= MAX_FAILURES
        return full or time.monotonic() >= self.end

    def add(self, failure: Failure | None) -> None:
        self.failures += [failure] if failure is not None else []
        self.num_cases += 1


def run_area_in_child(
    area: str,
    seed: int,
    seconds: float,
    max_cases: int | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """Check cases in a child process until the time is over; after a crash, another one continues.

    `report` is called every `REPORT_SECONDS`, after a case.
    """
    progress = Progress(area, seed, time.monotonic() + seconds, max_cases)
    while not progress.is_over:
        with tempfile.TemporaryFile("w+") as log:
            _run_until_crash(progress, log, report)
    return Result(area, progress.num_cases, progress.failures)


def _run_until_crash(progress: Progress, log: IO[str], report: Callable[[Progress], None]) -> None:
    """Add the results of a child process until it ends, and a failure if it crashes or hangs."""
    context = multiprocessing.get_context("fork")  # cheap here: this process has not imported torch
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run_cases, args=(progress, theirs, log))
    child.start()
    theirs.close()
    case: Any = None
    next_report = time.monotonic() + REPORT_SECONDS
    try:
        while True:
            case = ours.recv()
            progress.add(ours.recv())
            if time.monotonic() > next_report:
                report(progress)
                next_report = time.monotonic() + REPORT_SECONDS
    except EOFError:
        child.join()
    if child.exitcode != 0:
        crash = _describe_crash(child, log)
        progress.add(Failure(progress.area, progress.seed, progress.num_cases, case, crash))


def _run_cases(progress: Progress, connection: Connection, log: IO[str]) -> None:
    """Send each case and then its failure or None, until no more are wanted."""
    os.dup2(log.fileno(), 2)  # what compiled code and faulthandler write about a crash
    faulthandler.enable(file=2)
    prepare_area(progress.area)
    while not progress.is_over:
        case = draw_case(progress.area, progress.seed, progress.num_cases)
        connection.send(case)
        failure = run_case(progress.area, progress.seed, progress.num_cases, case)
        connection.send(failure)
        progress.add(failure)


def _describe_crash(child: BaseProcess, log: IO[str]) -> str:
    """Return what faulthandler wrote about the crash, and how the process ended."""
    log.seek(0)
    written = log.read()
    start = max(written.rfind(marker) for marker in ("Fatal Python error", "Timeout ("))
    lines = written[start:].splitlines()[:MAX_LINES] if start >= 0 else written.splitlines()[-MAX_LINES:]
    code = child.exitcode or 0
    reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return "\n".join([*lines, f"the process ended with {reason}"])
