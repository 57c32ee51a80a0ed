"""Seeds of epochs, processes and trials, all derived from the seed of a run."""

from __future__ import annotations

FACTORS = (1_000_003, 1_009)
"""Primes above the usual number of epochs or trials, and of processes, so that derived seeds differ."""


def derived_seed(seed: int, *numbers: int) -> int:
    """Return the seed of one of many sequences of random numbers, such as that of an epoch in a process.

    For example `derived_seed(2, 5)` is 2 x 1,000,003 + 5, and `derived_seed(2, 5, 1)` is that x 1,009 + 1. Results
    of earlier runs can be repeated only if these numbers stay the same.
    """
    for factor, number in zip(FACTORS[: len(numbers)], numbers, strict=True):
        seed = seed * factor + number
    return seed
