"""Run benchmarks, print a table per benchmark, write it to benchmarks/results, and fill the pages that quote it."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks import pages
from benchmarks.results import FOLDER, table, write_page

NAMES = (
    "graph",
    "capture",
    "formats",
    "cnn",
    "start",
    "qat",
    "data",
    "training",
    "statistics",
    "sensitivity",
    "counters",
    "search",
    "search_quality",
    "budget",
    "load",
    "hardware",
    "small_circuits",
    "low_bits",
    "export",
)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmarks that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"benchmarks to run (default: all of {', '.join(NAMES)})"
    )
    parser.add_argument("--quick", action="store_true", help="only check that they run; write no results")
    parser.add_argument(
        "--cases",
        type=lambda given: given.split(","),
        default=[],
        help="run only cases that begin so (low_bits, qat), such as 'minilm,smollm2-w4'; the page keeps other rows",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    options = parser.parse_args(arguments)
    for name in options.names or NAMES:
        if name not in NAMES:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(NAMES)}")
        benchmark = import_module(f"benchmarks.{name}")
        known = getattr(benchmark, "CASES", {})
        unknown = [each for each in options.cases if not any(case.startswith(each) for case in known)]
        if unknown:
            parser.error(f"'{name}' has no case '{unknown[0]}'; known: {', '.join(known) or 'none'}")
        given = {"cases": options.cases} if options.cases else {}
        results = benchmark.run(quick=options.quick, **given)
        if options.quick:
            print(f"{name}: {len(results)} measurements ran")
        elif results:  # if empty, the benchmark has printed the reason
            print(table(results))
            keep = bool(options.cases)
            page = write_page(name, results, benchmark.SUMMARY, options.folder, keep_others=keep)
            print(f"written to {page}")
            if options.folder == FOLDER:
                pages.update()


if __name__ == "__main__":
    main()
