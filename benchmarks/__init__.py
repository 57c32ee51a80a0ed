"""How fast it is: `python -m benchmarks` runs them all, `python -m benchmarks graph` runs one."""
