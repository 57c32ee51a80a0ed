"""Compiled loops for rounding float32 tensors on the CPU, bit for bit as the eager definitions of the formats.

They need the package numba (extra `fast`). Without it, on other devices and dtypes, and inside torch.compile, the
eager definitions run.
"""
