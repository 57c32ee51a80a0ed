"""Memory that is freed and kept, and returned to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

FREED = """
from chop import allocator
allocator.LARGE_PROCESS = 100 * 2**20
assert allocator.keep_freed_memory()
blocks = [bytearray(b"1") * 2**20 for _ in range(300)]
full = allocator.resident_memory()
del blocks[::2], blocks[:-1]  # the last block stays on top of what is freed
kept = allocator.resident_memory()
allocator.release_freed_memory()
print(*(each >> 20 for each in (full, kept, allocator.resident_memory())))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep memory")
def test_freed_memory_is_kept_until_it_is_released() -> None:
    found = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout
    full, kept, released = map(int, found.split())
    assert kept > full - 10, found
    assert released < full - 250, found


LARGE_BLOCKS = """
from chop import allocator
allocator.LARGE_PROCESS = 2**20
assert allocator.keep_freed_memory()
allocator.release_freed_memory()
before, small = allocator.resident_memory(), []
for _ in range(10):  # a small block takes a part of the place of each large one
    large = bytearray(b"1") * 2 * allocator.LARGE_BLOCK
    del large
    small.append(bytearray(b"1") * 2**20)
print((allocator.resident_memory() - before) >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep memory")
def test_large_blocks_do_not_make_a_large_process_grow() -> None:
    found = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True, check=True).stdout
    assert int(found) < 30, found


GAPS = """
from chop import allocator
allocator.LARGE_PROCESS = 2**20
assert allocator.keep_freed_memory()
blocks = [bytearray(b"1") * 2**16 for _ in range(1600)]
full = allocator.resident_memory()
del blocks[::2]
allocator.trim_freed_memory()
print((full - allocator.resident_memory()) >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep memory")
def test_gaps_between_blocks_are_returned_without_collecting_garbage() -> None:
    found = subprocess.run([sys.executable, "-c", GAPS], capture_output=True, text=True, check=True).stdout
    assert int(found) > 30, found  # of 50 MiB; pages at the edges of gaps stay
