"""The cases of an area: seeds, time limits, and a test file for each failure."""

from __future__ import annotations

import faulthandler
import os
import pkgutil
import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pprint import pformat
from random import Random
from types import FrameType
from typing import Any, Protocol, cast

import fuzz.areas

TIME_LIMIT = 30.0  # seconds per case, unless the area has its own
MAX_FAILURES = 50  # per area


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

    @property
    def name(self) -> str:
        return f"{self.area}_{self.seed}_{self.number}"

    def test_source(self) -> str:
        """Return a test file that repeats the case."""
        comment = "".join(f"# {line}\n" for line in self.error.splitlines()[-20:])
        return (
            f'"""Case {self.number} of `python -m fuzz --seed {self.seed} {self.area}`."""\n\n'
            "from math import inf, nan  # noqa: F401  # floats in the case\n"
            "from pathlib import Path\n\n"
            "from fuzz.frame import check_case\n\n"
            f"CASE = {pformat(self.case, width=110, sort_dicts=False)}\n\n\n"
            f"def test_{self.name}(tmp_path: Path) -> None:\n"
            f"    check_case({self.area!r}, CASE, tmp_path)\n\n\n{comment}"
        )


@dataclass(frozen=True)
class Result:
    """The cases of one area."""

    area: str
    num_cases: int
    failures: list[Failure]


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
    with _in_folder(folder), _time_limit(getattr(module, "TIME_LIMIT", TIME_LIMIT)):
        module.check(case, folder)


def run_case(area: str, seed: int, number: int, case: object) -> Failure | None:
    """Check a case in a folder that is deleted afterwards, and return its failure, if any."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        try:
            check_case(area, case, Path(folder))
        except (Exception, SystemExit):  # noqa: BLE001  # whatever is raised is the finding
            return Failure(area, seed, number, case, traceback.format_exc())
    return None


def write_failures(failures: list[Failure], folder: Path) -> list[Path]:
    """Write a test file per failure, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"test_{failure.name}.py" for failure in failures]
    for path, failure in zip(paths, failures, strict=True):
        path.write_text(failure.test_source(), encoding="utf-8")
    return paths


def _load(area: str) -> Area:
    if area not in area_names():
        raise ValueError(f"unknown area '{area}'; known: {', '.join(area_names())}")
    return cast(Area, import_module(f"fuzz.areas.{area}"))


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


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
