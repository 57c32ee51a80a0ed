"""Memory that is freed and kept."""

from __future__ import annotations

import subprocess
import sys

import pytest

FREED = """
from pathlib import Path
from chop.allocator import keep_freed_memory

def pages():
    return int(Path("/proc/self/statm").read_text().split()[1])

assert keep_freed_memory()
blocks = [bytearray(b"1") * 2**20 for _ in range(100)]
full = pages()
del blocks[:-1]
print(full, pages())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep memory")
def test_freed_memory_is_kept() -> None:
    found = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout
    full, kept = map(int, found.split())
    assert kept > 0.9 * full, found
