"""A budget of accuracy: whether changed models keep it on rows that did not choose them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from chop.dataset import Rows
from chop.dataset.base import Splits
from chop.dataset.splits import first_rows
from chop.display.numbers import counted, percentage_points
from chop.display.tables import plain_table

T = TypeVar("T")
Correct = Callable[[Rows], Tensor]
"""Returns whether each prediction of a model is right: a bool per row, or per token of a text."""
ONE_SIDED_95 = 1.6448536269514722
"""The quantile of the normal distribution for a one-sided bound that holds with 95 % confidence."""
MAX_HELD_BACK = 10_000
"""Predictions on rows that are held back."""
SHARE_IF_FEW = 1 / 3
"""The share of the budget that rows held back may lose if validation rows are few: models fit training rows."""
VALIDATION, HELD_BACK, TEST = "validation", "held back", "test"


@dataclass(frozen=True)
class PairedLoss:
    """What a changed model loses against the original one on the same rows."""

    rows: str
    num_rows: int
    lost: int
    """Rows that only the original model gets right."""
    gained: int
    """Rows that only the changed model gets right."""

    @classmethod
    def between(cls, rows: str, original: Tensor, changed: Tensor) -> PairedLoss:
        lost, gained = (int((one & ~other).sum()) for one, other in ((original, changed), (changed, original)))
        return cls(rows, len(original), lost, gained)

    @property
    def points(self) -> float:
        """The loss of accuracy in percentage points."""
        return 100 * (self.lost - self.gained) / self.num_rows

    @property
    def limit(self) -> float:
        """The largest loss in percentage points, with 95 % confidence, by Tango's score interval (1998).

        Unlike the normal approximation, it also holds for few rows: 144 rows of which none is lost leave 1.8.
        """
        low, high = (self.lost - self.gained) / self.num_rows, 1.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if self._score(middle) > -ONE_SIDED_95 else (low, middle)
        return 100 * high

    def _score(self, loss: float) -> float:
        """Return by how many standard errors the measured loss differs, if `loss` was the true one."""
        changed, net, n = self.lost + self.gained, self.lost - self.gained, self.num_rows
        # The most likely share of gained rows, given the loss, is a root of 2n x^2 + b x - c = 0.
        b, c = (2 * n - net) * loss - changed, self.gained * loss * (1 - loss)
        gained = (math.sqrt(b * b + 8 * n * c) - b) / (4 * n)
        variance = n * (2 * gained + loss * (1 - loss))
        return (net - n * loss) / math.sqrt(variance) if variance > 0 else -math.inf


@dataclass(frozen=True)
class Choice(Generic[T]):
    """The first candidate that keeps a budget, with its loss on validation rows, rows held back and test rows."""

    candidate: T
    losses: tuple[PairedLoss, ...]
    max_drop: float
    num_failed: int
    """Candidates that validation rows accepted, and rows held back did not."""
    is_sure: bool = True
    """Whether the rows show with 95 % confidence that the budget is kept, or are too few and lose nothing."""

    @property
    def rows_are_few(self) -> bool:
        """Whether there are too few rows to show with 95 % confidence that the budget is kept."""
        return any(_are_few(loss.num_rows, self.max_drop) for loss in self.losses[:2])

    @property
    def text(self) -> str:
        """The losses as a table, with a sentence about what was not sure or not accepted."""
        rows = [
            (loss.rows, f"{loss.num_rows:,}", f"{loss.points:.2f}", f"{loss.limit:.2f}") for loss in self.losses
        ]
        headers = ("loss of accuracy in percentage points on", "predictions", "measured", "95 % limit")
        lines = [plain_table(headers, rows, ("left", "right", "right", "right"))]
        points = percentage_points(self.max_drop)
        if self.num_failed:
            lines.append(f"{counted(self.num_failed, 'other choice')} lost too much on rows held back")
        if not self.is_sure:
            lines.append(f"not sure: no choice loses at most {points} with 95 % confidence; this one is the surest")
        elif self.rows_are_few:
            fewest = counted(min(loss.num_rows for loss in self.losses[:2]), "row")
            lines.append(
                f"{fewest} cannot show a loss of at most {points} with 95 % confidence: this choice loses none of "
                "them"
            )
        return "\n".join(lines)

    @property
    def summary(self) -> dict[str, Any]:
        """The losses as the summary of a run holds them."""
        return {
            loss.rows: {"predictions": loss.num_rows, "points": loss.points, "limit": loss.limit}
            for loss in self.losses
        }


@dataclass(frozen=True)
class Budget:
    """The largest loss of accuracy, in percentage points, and the rows that it is checked on."""

    max_drop: float
    rows: Mapping[str, Rows]
    original: Correct

    @classmethod
    def on(cls, max_drop: float, splits: Splits, num_rows: int, original: Correct, *, trains: bool) -> Budget:
        """Choose on the first `num_rows` validation rows, and hold others back; test rows are only reported.

        Validation rows that are left are held back; if they are fewer, training rows are, evenly spaced. If
        candidates are trained on the training rows (`trains`), half of the validation rows are held back instead.
        """
        rows = splits.val if len(splits.val.labels) else splits.train
        halved = trains or rows is splits.train
        chosen = first_rows(without_held_back(rows) if halved else rows, num_rows)
        left = Rows(rows.features[len(chosen.labels) :], rows.labels[len(chosen.labels) :])
        held_back = left if halved or len(left.labels) >= len(chosen.labels) else splits.train
        most = max(1, MAX_HELD_BACK // max(1, held_back.labels[:1].numel()))
        step = math.ceil(len(held_back.labels) / most) or 1
        held_back = Rows(held_back.features[::step], held_back.labels[::step])
        test = {TEST: splits.test} if len(splits.test.labels) else {}
        return cls(max_drop, {VALIDATION: chosen, HELD_BACK: held_back, **test}, original)

    def choose(self, candidates: Iterable[T], correct: Callable[[T], Correct]) -> Choice[T] | None:
        """Return the first candidate that is sure to keep the budget on validation rows and on rows held back.

        If there is none, return the surest of those that measured no larger loss on both; else None.
        """
        original = {name: self.original(rows) for name, rows in self.rows.items()}
        unsure: list[tuple[float, T]] = []
        num_failed = 0

        def losses(right: Correct, *names: str) -> tuple[PairedLoss, ...]:
            return tuple(PairedLoss.between(name, original[name], right(self.rows[name])) for name in names)

        for candidate in candidates:
            right = correct(candidate)
            (first,) = losses(right, VALIDATION)
            if first.points > self.max_drop:
                continue
            (second,) = losses(right, HELD_BACK)
            if self._is_kept(first) and self._is_kept(first, second):
                found = (first, second, *losses(right, *(name for name in self.rows if name == TEST)))
                return Choice(candidate, found, self.max_drop, num_failed)
            num_failed += self._is_kept(first)
            if second.points <= self.max_drop:
                together = (
                    first.num_rows + second.num_rows,
                    first.lost + second.lost,
                    first.gained + second.gained,
                )
                unsure.append((PairedLoss("", *together).limit, candidate))
        if not unsure:
            return None
        _, surest = min(unsure, key=lambda pair: pair[0])
        return Choice(surest, losses(correct(surest), *self.rows), self.max_drop, num_failed, is_sure=False)

    def _is_kept(self, *losses: PairedLoss) -> bool:
        """Return whether the last loss is within the budget; rows that are too few to show it must lose nothing."""
        are_few = _are_few(losses[0].num_rows, self.max_drop)
        allowed = self.max_drop * (SHARE_IF_FEW if are_few and len(losses) > 1 else 1.0)
        if _are_few(losses[-1].num_rows, allowed):
            return losses[-1].lost == 0
        return losses[-1].limit <= allowed


def without_held_back(rows: Rows) -> Rows:
    """Return the half of the rows by which trained candidates are chosen; the others are held back."""
    return first_rows(rows, (len(rows.labels) + 1) // 2)


def _are_few(num_rows: int, max_drop: float) -> bool:
    return num_rows == 0 or PairedLoss("", num_rows, 0, 0).limit > max_drop
