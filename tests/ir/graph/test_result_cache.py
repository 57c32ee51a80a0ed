"""Which results are cached, and which are dropped."""

from __future__ import annotations

import gc
import weakref

import torch

from chop.ir.graph.result_cache import ResultCache


def test_a_result_is_kept_from_the_second_time_on() -> None:
    cache, source, result = ResultCache(10**6), object(), torch.ones(10)
    cache.add((source,), result)
    assert cache.find((source,)) == (False, None)
    cache.add((source,), result)
    is_known, found = cache.find((source,))
    assert is_known
    assert found is result
    assert cache.nbytes == 40
    assert cache.find((object(),)) == (False, None)


def test_the_least_recently_used_result_is_dropped_first() -> None:
    cache = ResultCache(2 * 40)
    sources = [object() for _ in range(3)]
    for source in sources[:2]:
        for _ in range(2):
            cache.add((source,), torch.ones(10))
    assert cache.find((sources[0],))[0]
    for _ in range(2):
        cache.add((sources[2],), torch.ones(10))
    assert [cache.find((source,))[0] for source in sources] == [True, False, True]
    assert cache.nbytes == 80


def test_a_result_above_the_limit_is_not_kept() -> None:
    cache, source = ResultCache(39), object()
    for _ in range(3):
        cache.add((source,), torch.ones(10))
    assert cache.nbytes == 0
    assert not cache.find((source,))[0]


def test_arguments_live_as_long_as_their_result() -> None:
    cache = ResultCache(40)
    source, other = torch.zeros(3), object()
    watched = weakref.ref(source)
    for _ in range(2):
        cache.add((source,), torch.ones(10))
    del source
    gc.collect()
    assert watched() is not None  # otherwise another object could get its identity
    for _ in range(2):
        cache.add((other,), torch.ones(10))
    gc.collect()
    assert watched() is None
