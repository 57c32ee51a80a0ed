"""`python -m benchmarks [NAME ...]`: measure, print a table, and keep it under benchmarks/results."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.results import FOLDER, table, write_page

NAMES = (
    "graph",
    "formats",
    "qat",
    "data",
    "training",
    "statistics",
    "sensitivity",
    "counters",
    "search",
    "search_quality",
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all of {', '.join(NAMES)})")
    parser.add_argument("--quick", action="store_true", help="only see that they run; nothing is kept")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results go")
    options = parser.parse_args(arguments)
    for name in options.names or NAMES:
        if name not in NAMES:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(NAMES)}")
        benchmark = import_module(f"benchmarks.{name}")
        results = benchmark.run(quick=options.quick)
        if options.quick:
            print(f"{name}: {len(results)} measurements ran")
        elif results:  # none: it said why
            print(table(results))
            print(f"written to {write_page(name, results, benchmark.SUMMARY, options.folder)}")


if __name__ == "__main__":
    main()
