"""Run the fuzzer: random cases of each area, until the time is over."""

from __future__ import annotations

import argparse
import resource
import secrets
import sys
from pathlib import Path

from fuzz.frame import area_names, run_area

MAX_MEMORY = 16 * 2**30  # bytes of address space: a case that needs more fails instead of filling the machine


def main(arguments: list[str] | None = None) -> int:
    """Run the areas that the command line names, and return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"default: all of {', '.join(area_names())}")
    parser.add_argument("--seconds", type=float, default=300, help="for all areas together (default: 300)")
    parser.add_argument("--cases", type=int, help="maximum number of cases per area (default: no limit)")
    parser.add_argument("--seed", type=int, help="seed of all cases (default: a random number)")
    parser.add_argument("--failures", type=Path, default=Path("fuzz_failures"), help="folder for failing cases")
    options = parser.parse_args(arguments)
    areas = options.areas or area_names()
    for area in areas:
        if area not in area_names():
            parser.error(f"unknown area '{area}'; known: {', '.join(area_names())}")
    _limit_memory()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    num_failures = 0
    for area in areas:
        result = run_area(area, seed, options.seconds / len(areas), options.cases)
        print(result, flush=True)
        for failure in result.failures:
            print(f"  {failure.write(options.failures)}: {failure.error.splitlines()[-1][:200]}")
        num_failures += len(result.failures)
    return int(num_failures > 0)


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, hard))


if __name__ == "__main__":
    sys.exit(main())
