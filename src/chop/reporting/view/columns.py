"""The columns of the overview: key figures, also the first rows of comparisons, and options that differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from chop.display.figures import KeyFigure, figure
from chop.reporting.view.nested_tables import flatten, number_at, tables_at
from chop.reporting.view.run_record import MAX_RECORDS_KEPT, RunRecord

When = Literal["before", "after"]
"""`after` is the value of a run; a run that changes a model also has the value of the model before."""
Reader = Callable[[RunRecord, When], float | None]


@dataclass(frozen=True)
class RunFigure:
    """A key figure, and how it is read from the files of a run."""

    figure: KeyFigure
    help: str
    read: Reader
    measured: bool = False
    """Whether the value depends on the rows that it was measured on."""

    def rows_of(self, record: RunRecord) -> str | None:
        """Return the rows that the figure was measured on, such as `validation rows`; None: the test split."""
        return record.evaluated_on if self.measured else None

    @property
    def title(self) -> str:
        return self.figure.column_title

    def text_before(self, record: RunRecord) -> str | None:
        """Return the value before as text, such as `was 92.31 %`; None if it is unknown or has not changed."""
        before = self.read(record, "before")
        unchanged = before is None or before == self.read(record, "after")
        return None if before is None or unchanged else f"was {self.figure.text(before)}"


def _test_result(name: str) -> RunFigure:
    """Return a figure that is measured on the test split; a search has that of its best trial, on its own rows."""

    def read(record: RunRecord, when: When) -> float | None:
        found = number_at(record.summary, "test", when, name)
        if found is None:  # not a transform; a sweep has the value of its original model
            found = number_at(record.summary, "test" if when == "after" else "baseline", name)
        return _search_result(record, when, name) if found is None else found

    help_ = f"{figure(name).help}, on the test split; for a search, of its best trial on the rows that are named"
    return RunFigure(figure(name), help_, read, measured=True)


def _search_result(record: RunRecord, when: When, name: str) -> float | None:
    return number_at(record.summary, "best" if when == "after" else "plain", name)


def _cost(name: str, *, per_sample: bool = False, measured: tuple[str, str] | None = None) -> RunFigure:
    """Return a figure from the cost in a summary.

    A summary has no cost if a pass added nodes without shapes. The number may then be among the results of a pass:
    `measured` is its name and its key.
    """

    def read(record: RunRecord, when: When) -> float | None:
        found, samples = number_at(record.summary, "cost", when, name), number_at(record.summary, "cost", "samples")
        if found is not None and per_sample:
            return found / samples if samples else None
        for each in tables_at(record.summary, "measured") if found is None and measured else ():
            if (each.get("pass"), each.get("what")) == measured:
                return number_at(each, when)
        return _search_result(record, when, name) if found is None else found

    return RunFigure(figure(name), f"{figure(name).help}{', per sample' if per_sample else ''}", read)


def _from_summary(name: str) -> RunFigure:
    """Return a figure that is the same before and after, and is a key of the summary."""

    def read(record: RunRecord, when: When) -> float | None:
        return number_at(record.summary, name) if when == "after" else None

    return RunFigure(figure(name), figure(name).help, read)


ACCURACY = _test_result("accuracy")
LOSS = _test_result("loss")
PARAMETERS = _from_summary("parameters")
MACS = _cost("macs", per_sample=True)
COLUMNS = (
    ACCURACY,
    _cost("average_weight_bits", measured=("calculate_avg_bits_mg", "w_avg_bit")),
    _cost("average_activation_bits", measured=("calculate_avg_bits_mg", "data_avg_bit")),
    _cost("bitops", per_sample=True),
    _cost("weight_bits"),
    _from_summary("seconds"),
)
"""The columns of the overview, which together with options fit a page of 1400 pixels."""
ALL_FIGURES = (ACCURACY, LOSS, PARAMETERS, MACS, *COLUMNS[1:])
"""The figures of a run's page and of a comparison."""


MAX_OPTION_COLUMNS = 4
NOT_COMPARED = (
    *(
        "model",
        "dataset",
        "task",
        "name",
        "project",
        "project_dir",
        "load_name",
        "load_type",
        "data_path",
        "plugins",
    ),
    *("report", "open", "num_workers", "workers", "log_every_n_steps", "report_to"),
)
"""Options that the overview shows in other columns, or that do not change results."""
UNCLEAR_WORDS = ("name", "config", "setup")
"""Words of keys that need the word before them: the `name` of what?"""


@dataclass(frozen=True)
class OptionColumn:
    """An option that differs between runs."""

    key: str
    """As in `run.toml`: `passes.quantize.linear.config.weight_width`."""
    title: str
    """The end of the key that says what the option is, and is different from those of the other columns."""

    def text(self, record: RunRecord) -> str | None:
        """Return the value of a run; None if it has no such option."""
        return _options(record).get(self.key)


@lru_cache(maxsize=4)
def differing_options(records: tuple[RunRecord, ...]) -> tuple[tuple[OptionColumn, ...], int]:
    """Return the options that differ between runs of one action, those with most values first, and how many others.

    Runs of different actions have different options, so that they are not compared.
    """
    by_action: dict[str | None, list[Mapping[str, str]]] = {}
    for record in records:
        if options := _options(record):
            by_action.setdefault(record.action, []).append(options)
    num_values: dict[str, int] = {}
    for runs in by_action.values():
        for key in dict.fromkeys(key for options in runs for key in options):
            values = {options.get(key) for options in runs}
            if len(values) > 1:
                num_values[key] = max(num_values.get(key, 0), len(values))
    keys = sorted(num_values, key=lambda key: -num_values[key])
    shown = keys[:MAX_OPTION_COLUMNS]
    return tuple(OptionColumn(key, _short(key, shown)) for key in shown), len(keys) - len(shown)


def _short(key: str, keys: Sequence[str]) -> str:
    """Return the last words of a dotted key, as many as are clear and no other key ends with."""
    words = key.split(".")
    for length in range(1, len(words)):
        end = ".".join(words[-length:])
        if (
            words[-length] not in UNCLEAR_WORDS
            and sum(each == end or each.endswith(f".{end}") for each in keys) == 1
        ):
            return end
    return key


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _options(record: RunRecord) -> Mapping[str, str]:
    return dict(_texts(flatten(record.config)))


def _texts(options: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, str]]:
    for key, value in options:
        if key.partition(".")[0] not in NOT_COMPARED:
            yield key, value if isinstance(value, str) else json.dumps(value, default=str)
