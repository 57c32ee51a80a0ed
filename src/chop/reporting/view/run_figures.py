"""The key figures of a run: what the overview has columns for and a comparison begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from chop.display import numbers
from chop.reporting.view.reading import number_at, tables_at
from chop.reporting.view.run_record import Record

When = Literal["before", "after"]
Reader = Callable[[Record, When], float | None]
"""Gives a number of a run; `before` is for runs that change a model, `after` is the number of every run."""


@dataclass(frozen=True)
class Figure:
    """A number of a run, of the same meaning in runs of every action."""

    title: str
    help: str
    show: Callable[[float], str]
    better: Literal["more", "less", None]
    read: Reader
    change: Callable[[float, float], str] = numbers.difference

    def was(self, record: Record) -> str | None:
        """The number before, in words, if it was another one."""
        before = self.read(record, "before")
        return None if before is None or before == self.read(record, "after") else f"was {self.show(before)}"


def _tested(what: str) -> Reader:
    """A result on the test part; of a search, that of its best trial, and of the model as it was."""

    def read(record: Record, when: When) -> float | None:
        found = number_at(record.summary, "test", when, what)
        if found is None and when == "after":
            found = number_at(record.summary, "test", what)
        return _searched(record, when, what) if found is None else found

    return read


def _searched(record: Record, when: When, what: str) -> float | None:
    return number_at(record.summary, "best" if when == "after" else "plain", what)


def _cost(key: str, per_sample: bool = False, measured: tuple[str, str] | None = None) -> Reader:
    """A cost of a model that a run changed; `measured` is the pass that tells it too, and the name it has there."""

    def read(record: Record, when: When) -> float | None:
        found, samples = number_at(record.summary, "cost", when, key), number_at(record.summary, "cost", "samples")
        if found is not None and per_sample:
            return found / samples if samples else None
        for each in tables_at(record.summary, "measured") if found is None and measured else ():
            if (each.get("pass"), each.get("what")) == measured:
                return number_at(each, when)
        return _searched(record, when, key) if found is None else found

    return read


def _plain(key: str) -> Reader:
    return lambda record, when: number_at(record.summary, key) if when == "after" else None


ACCURACY = Figure(
    "accuracy",
    "on the test part; of a search, of its best trial",
    numbers.percent,
    "more",
    _tested("accuracy"),
    change=numbers.points,
)
LOSS = Figure("loss", "mean on the test part", numbers.bits, "less", _tested("loss"))
FIGURES = (
    ACCURACY,
    Figure("parameters", "numbers that training sets", numbers.short, "less", _plain("parameters")),
    Figure(
        "weight bits",
        "bits of a weight on average",
        numbers.bits,
        "less",
        _cost("average_weight_bits", measured=("calculate_avg_bits_mg", "w_avg_bit")),
    ),
    Figure(
        "data bits",
        "bits of an activation on average",
        numbers.bits,
        "less",
        _cost("average_activation_bits", measured=("calculate_avg_bits_mg", "data_avg_bit")),
    ),
    Figure("MACs", "multiplications with addition, a sample", numbers.short, "less", _cost("macs", True)),
    Figure("BitOPs", "MACs x bits of both factors, a sample", numbers.short, "less", _cost("bitops", True)),
    Figure("memory", "of weights and biases", numbers.memory, "less", _cost("weight_bits")),
    Figure("time", "that the run took", numbers.seconds, None, _plain("seconds")),
)
"""The columns of the overview."""
