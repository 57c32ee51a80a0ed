"""Benchmarks: `python -m benchmarks` runs all, `python -m benchmarks graph` runs one."""
