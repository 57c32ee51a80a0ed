"""Benchmarks with long cases that can be run one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from benchmarks.results import Result
from benchmarks.timing import one_thread

Cases = Mapping[str, Callable[[bool], Iterator[Result]]]
"""What is measured, by name; the argument is whether to check only that it runs."""


def run_cases(cases: Cases, wanted: Sequence[str], quick: bool) -> list[Result]:
    """Return the dated results of cases whose names begin with one of the wanted, or of all, and print each."""
    today = datetime.now(UTC).date().isoformat()
    results: list[Result] = []
    with one_thread():
        for name, case in cases.items():
            if not wanted or name.startswith(tuple(wanted)):
                for result in case(quick):
                    print(f"{result.what}: {result.measured:.4f} {result.unit}", flush=True)
                    results.append(replace(result, measured_on=today))
    return results
