"""Files of runs may come from somebody else: all are opened by `chop.files`, which refuses pipes and devices."""

from __future__ import annotations

import ast
from pathlib import Path

import chop

SOURCE = Path(chop.__file__).parent
ROOMS = ("runs", "reporting", "searching", "sweeping", "training", "transforming", "actions", "tools", "display")
OPENING = ("open", "read_text", "read_bytes")
EXCEPTIONS = {
    "reporting/run_report.py: webbrowser.open(path.absolute().as_uri())",
    "reporting/view/server.py: webbrowser.open(address)",
    "reporting/view/html.py: ASSETS[name].read_text(encoding='utf-8')",  # part of this package
    "searching/study/journal.py: self._path.open('rb')",  # open_journal has checked it
    "searching/study/journal.py: self._path.open('r+b', buffering=0)",
    "training/metrics_log.py: open(path, 'a', encoding='utf-8')",  # open_log has read it
    "training/tensorboard.py: open(self._path, 'ab')",  # a new file
    "searching/strategies/ilp.py: os.open(os.devnull, os.O_WRONLY)",
}


def opening_calls(file: Path) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    named = [
        call
        for call in calls
        if (isinstance(call.func, ast.Attribute) and call.func.attr in OPENING)
        or (isinstance(call.func, ast.Name) and call.func.id == "open")
    ]
    return {f"{file.relative_to(SOURCE)}: {ast.unparse(call)}" for call in named}


def test_files_of_runs_are_opened_in_one_place() -> None:
    files = [file for room in ROOMS for file in (SOURCE / room).rglob("*.py")]
    assert set().union(*map(opening_calls, files)) == EXCEPTIONS
