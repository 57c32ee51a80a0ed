"""The options in which the runs of a project differ: columns of the overview."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from chop.reporting.view.nested_tables import flatten
from chop.reporting.view.run_record import MAX_RECORDS_KEPT, RunRecord

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
