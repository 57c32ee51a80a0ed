"""How far a search is: a bar on a terminal, some lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from chop.searching.evaluation.objectives import Objectives
from chop.searching.study.study import Study
from chop.training.progress import REFRESH, Line, bar, clock

SHARE = 50  # looking at the study takes at most one part in so many of the time
LINES, MINUTE = 10, 60.0  # where there is no terminal: lines for the whole search, and seconds between them at most


class SearchProgress:
    """Shows trials, the best so far, the rate and the time left; all workers on all machines count."""

    def __init__(self, study: Study, objectives: Objectives, every: int, save: Callable[[], object]) -> None:
        """`save` is called whenever `every` more trials are done; 0: never."""
        self._study, self._objectives, self._every, self._save = study, objectives, every, save
        self._line = Line()
        self._front: list[Mapping[str, float]] = []
        self._seen: set[int] = set()
        self._pause, self._next_look = REFRESH, 0.0
        self._said, self._said_at = 0, time.monotonic()
        self._look()
        self._saved = self._first = len(self._seen)
        self._start: float | None = None

    def tick(self) -> None:
        """Look whether there is something new, unless that was a moment ago."""
        now = time.monotonic()
        if now < self._next_look:
            return
        before = len(self._seen)
        self._look()
        took = time.monotonic() - now
        self._next_look = now + max(self._pause, SHARE * took)
        if self._start is None and len(self._seen) > before:
            self._start, self._first = now, len(self._seen)
        self._show()
        if self._every and len(self._seen) - self._saved >= self._every:
            self._saved = len(self._seen)
            self._save()

    def close(self) -> None:
        """The state at the end stays."""
        before = len(self._seen)
        self._look()
        if self._line.is_terminal or len(self._seen) > before or self._said < LINES:
            self._line.say(self._text())
        self._line.close()

    def _look(self) -> None:
        for record in self._study.records():
            if record.state in ("complete", "pruned", "failed") and record.number not in self._seen:
                self._seen.add(record.number)
                if record.state == "complete":
                    self._add(record.metrics)
        self._planned = self._study.planned or 0

    def _add(self, metrics: Mapping[str, float]) -> None:
        if not any(self._objectives.covers(other, metrics) for other in self._front):
            self._front = [each for each in self._front if not self._objectives.covers(metrics, each)]
            self._front.append(metrics)

    def _show(self) -> None:
        if self._line.is_terminal:
            self._line.draw(self._text())
            return
        tenth = LINES * len(self._seen) // max(1, self._planned)
        if tenth > self._said or time.monotonic() - self._said_at > MINUTE:
            self._said, self._said_at = tenth, time.monotonic()
            self._line.say(self._text())

    def _text(self) -> str:
        done = len(self._seen)
        parts = [f"trials {done}/{self._planned} {bar(done / max(1, self._planned))}", self._best(), self._pace()]
        return "  ".join(part for part in parts if part)

    def _best(self) -> str:
        if not self._front:
            return ""
        if self._objectives.sum_direction is not None:
            pick = max if self._objectives.sum_direction == "maximize" else min
            return f"best {pick(self._objectives.values(each)[0] for each in self._front):.4g}"
        first = self._objectives.each[0]
        best = max(self._front, key=first.gain)[first.name]
        return f"best {first.name} {best:.4g}, {len(self._front)} on the front"

    def _pace(self) -> str:
        new = len(self._seen) - self._first
        if self._start is None or not new:
            return ""
        rate = new / max(1e-9, time.monotonic() - self._start)
        return f"{rate:.3g} trials/s, {clock((self._planned - len(self._seen)) / rate)} left"
