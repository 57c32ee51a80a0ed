"""What is kept of results, and what is not."""

from __future__ import annotations

import gc
import weakref

import torch

from chop.ir.graph.result_cache import Remembered


def test_a_result_is_kept_from_the_second_time_on() -> None:
    remembered, source, result = Remembered(10**6), object(), torch.ones(10)
    remembered.add((source,), result)
    assert remembered.find((source,)) == (False, None)
    remembered.add((source,), result)
    is_known, found = remembered.find((source,))
    assert is_known
    assert found is result
    assert remembered.nbytes == 40
    assert remembered.find((object(),)) == (False, None)


def test_what_was_unused_for_longest_is_forgotten_first() -> None:
    remembered = Remembered(2 * 40)
    sources = [object() for _ in range(3)]
    for source in sources[:2]:
        for _ in range(2):
            remembered.add((source,), torch.ones(10))
    assert remembered.find((sources[0],))[0]
    for _ in range(2):
        remembered.add((sources[2],), torch.ones(10))
    assert [remembered.find((source,))[0] for source in sources] == [True, False, True]
    assert remembered.nbytes == 80


def test_a_result_that_has_no_room_is_not_kept() -> None:
    remembered, source = Remembered(39), object()
    for _ in range(3):
        remembered.add((source,), torch.ones(10))
    assert remembered.nbytes == 0
    assert not remembered.find((source,))[0]


def test_what_a_result_was_made_from_lives_as_long_as_it() -> None:
    remembered = Remembered(40)
    source, other = torch.zeros(3), object()
    watched = weakref.ref(source)
    for _ in range(2):
        remembered.add((source,), torch.ones(10))
    del source
    gc.collect()
    assert watched() is not None  # else another object could get its identity
    for _ in range(2):
        remembered.add((other,), torch.ones(10))
    gc.collect()
    assert watched() is None
