"""The summary with its quantiles and histograms, compared with numpy on all values."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from chop.statistics import Statistic, distribution, make_statistic
from chop.statistics.distribution import MAX_EXACT_VALUES

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
RELATIVE_ERROR = 1 / 128  # the 0.8 % that the documentation states
SHARES = [0.0, 0.01, 0.3, 0.5, 0.97, 1.0]
BINS = 8


def run(parts: list[Any], name: str = "summary", **options: Any) -> dict[str, Any]:
    return seen(parts, name, **options).compute()


def seen(parts: list[Any], name: str = "summary", **options: Any) -> Statistic:
    given_options: dict[str, dict[str, Any]] = {
        "summary": {"shares": SHARES, "bins": BINS},
        "quantiles": {"shares": SHARES},
    }
    statistic = make_statistic(name, given_options.get(name, {"bins": BINS}) | options, "test")
    for part in parts:
        statistic.update(torch.as_tensor(part))
    return statistic


@contextmanager
def few_are_kept() -> Iterator[None]:
    """Use a histogram from three values on, so that small examples show its errors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribution, "MAX_EXACT_VALUES", 2)
        patch.setattr(distribution, "MAX_EXACT_VALUES_PER_GROUP", 1)
        yield


def assert_as_numpy(found: dict[str, Any], data: Array, exact: bool = True) -> None:
    """Check all results of a summary; those of the distribution exactly, or within the stated error."""
    values = data[~np.isnan(data)]
    largest = float(np.abs(values).max())
    assert (found["min"], found["max"]) == (values.min(), values.max())
    assert (found["count"], found["nan_count"]) == (values.size, data.size - values.size)
    assert found["zeros"] == (values == 0).sum()
    assert found["mean"] == pytest.approx(values.mean(), rel=0, abs=1e-6 * largest)
    if values.size > 1:
        assert found["variance"] == pytest.approx(values.var(ddof=1), rel=0, abs=1e-6 * largest**2)
    error = 0.0 if exact else RELATIVE_ERROR
    assert found["relative_error"] == error
    assert_quantiles(found["quantiles"].numpy(), values, error)
    assert_bars(found["edges"].numpy(), found["counts"].numpy(), values, 2 * error)


def assert_quantiles(quantiles: Array, values: Array, error: float) -> None:
    """Check that each quantile lies between its two neighbours, within their relative errors."""
    ordered = np.sort(values)
    assert (quantiles[0], quantiles[-1]) == (ordered[0], ordered[-1])
    for share, found in zip(SHARES, quantiles, strict=True):
        position = share * (len(values) - 1)
        below, above = ordered[int(np.floor(position))], ordered[int(np.ceil(position))]
        weight = position - np.floor(position)
        expected = below * (1 - weight) + above * weight
        bound = error * (abs(below) * (1 - weight) + abs(above) * weight)
        assert abs(found - expected) <= bound + 1e-12 * max(abs(below), abs(above))


def assert_bars(edges: Array, counts: NDArray[np.int64], values: Array, error: float) -> None:
    """Check the number of values below each edge, except for values closer to it than `error` of themselves."""
    low, high = values.min(), values.max()
    if low == high:
        low, high = low - max(abs(low), 1) / 2, high + max(abs(high), 1) / 2
    np.testing.assert_allclose(edges, np.linspace(low, high, BINS + 1), rtol=0, atol=1e-12 * max(-low, high))
    assert (edges[0], edges[-1]) == (low, high)
    assert counts.sum() == values.size
    assert (counts >= 0).all()
    if error == 0:
        assert counts.tolist() == np.histogram(values, bins=edges)[0].tolist()
    near = error * np.abs(values) * (1 + 1e-9)
    for edge, below in zip(edges[1:-1], counts.cumsum(), strict=False):
        assert (values + near < edge).sum() <= below <= (values - near < edge).sum()


tiny = st.sampled_from([0.0, -0.0, 1e-45, -3e-42, 1.2e-38, 1e-30])
huge = st.sampled_from([1e30, -3e38, 1e20])
plain = st.floats(width=32, allow_nan=False, allow_infinity=False)
levels = st.integers(-8, 8).map(lambda level: level / 4)
offset = st.integers(0, 100).map(lambda step: 1e6 + step)
numbers = st.one_of(plain, tiny, huge, levels, offset, st.just(nan))
parts_of_data = st.lists(st.lists(numbers, min_size=1, max_size=20), min_size=1, max_size=8).filter(
    lambda parts: any(value == value for part in parts for value in part)
)


@pytest.mark.parametrize("exact", [True, False])
@given(parts=parts_of_data)
@settings(max_examples=150, deadline=None)
def test_any_values_in_any_number_of_updates(exact: bool, parts: list[list[float]]) -> None:
    data = np.concatenate(parts).astype(np.float32).astype(np.float64)
    if exact:
        assert_as_numpy(run(list(map(torch.tensor, parts))), data)
        return
    with few_are_kept():
        found = run(list(map(torch.tensor, parts)))
        precise = run(list(map(torch.tensor, parts)), precise=True)
    assert_as_numpy(found, data, exact=data.size <= 2)
    assert_as_numpy(precise, data)


@given(parts=parts_of_data, order=st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_merging_in_any_order_equals_one_run(parts: list[list[float]], order: Any) -> None:
    with few_are_kept():
        at_once = run([torch.tensor([value for part in parts for value in part])])
        statistics = [seen([torch.tensor(part)]) for part in parts]
        order.shuffle(statistics)
        while len(statistics) > 1:
            statistics[0].merge(statistics.pop(order.randrange(1, len(statistics))))
        merged = statistics[0].compute()
    values = [abs(np.float32(value)) for part in parts for value in part if value == value]
    largest = float(max(values))
    for key, value in at_once.items():
        scale = {"mean": largest, "variance": largest**2}.get(key, 0.0)
        np.testing.assert_allclose(merged[key], value, rtol=0, atol=1e-12 * scale, err_msg=key)


ORDERS: dict[str, Array] = {
    "constant far from zero": np.full(3000, 1e8),
    "far from zero": 1e7 + np.arange(3000.0) % 7,
    "rising": np.arange(3000.0),
    "falling": np.arange(3000.0)[::-1].copy(),
    "huge and tiny in turn": np.tile([1e30, 1e-30, -1e30, 1e-42], 750),
    "one outlier at the end": np.append(np.zeros(2999), 1e30),
    "subnormal": 1e-44 * np.arange(3000.0),
}


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("part_size", [1, 64, 3000])
@pytest.mark.parametrize("exact", [True, False])
def test_adversarial_orders(kind: str, part_size: int, exact: bool) -> None:
    data = ORDERS[kind].astype(np.float32)
    parts = [torch.from_numpy(part) for part in np.split(data, range(part_size, len(data), part_size))]
    if exact:
        assert_as_numpy(run(parts), data.astype(np.float64))
    else:
        with few_are_kept():
            assert_as_numpy(run(parts), data.astype(np.float64), exact=False)


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float8_e4m3fn])
@pytest.mark.parametrize("exact", [True, False])
def test_every_real_dtype(dtype: torch.dtype, exact: bool) -> None:
    x = (torch.randn(20, 30) * 40).to(dtype)
    data = x.double().numpy().reshape(-1)
    if exact:
        assert_as_numpy(run(list(x.split(3))), data)
    else:
        with few_are_kept():
            assert_as_numpy(run(list(x.split(3))), data, exact=False)


@pytest.mark.parametrize("scale", [1.0, 1e-42, 1e30])
def test_many_values_are_within_the_stated_error(scale: float) -> None:
    x = torch.randn(4, MAX_EXACT_VALUES) * scale
    x[0, :1000] = 0.0
    assert_as_numpy(run(list(x)), x.double().numpy().reshape(-1), exact=False)
    assert_as_numpy(run(list(x), precise=True), x.double().numpy().reshape(-1))


@pytest.mark.parametrize("options", [{}, {"keep": [0]}])
def test_slices_of_a_large_tensor_may_differ_in_size(options: dict[str, Any]) -> None:
    x = torch.arange(3 * MAX_EXACT_VALUES + 7.0).repeat(2, 1)
    found = run([x], **options)
    assert np.asarray(found["mean"]) == pytest.approx(x.double().mean().item(), rel=1e-12)
    data = x.double().numpy()
    variance = data.var(1, ddof=1) if options else data.var(ddof=1)
    assert np.asarray(found["variance"]) == pytest.approx(variance, rel=1e-12)


def test_a_constant_fills_one_bin() -> None:
    with few_are_kept():
        found = run([torch.full((10,), 100.5)], "histogram", bins=4095)
    (bar,) = found["counts"].nonzero().flatten().tolist()
    assert found["edges"][bar] <= 100.5 < found["edges"][bar + 1]


def test_the_histogram_of_a_normal_distribution_is_smooth() -> None:
    """The bins of the log histogram, which get wider for larger values, do not show."""
    x = torch.randn(10 * MAX_EXACT_VALUES)
    found = run([x], "histogram", bins=64)
    expected, _ = np.histogram(x.numpy(), bins=found["edges"].numpy())
    assert np.abs(found["counts"].numpy() - expected).max() < 0.02 * expected.max()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "options", [{"keep": [1]}, {"dims": [0, 2, 3]}, {"keep": [0, -1]}, {"dims": None}, {"keep": [0, 1, 2, 3]}]
)
def test_groups_have_independent_results(options: dict[str, Any], exact: bool) -> None:
    parts = [torch.randn(2, 3, 4, 5) * 10 ** torch.arange(-1.0, 2.0).reshape(3, 1, 1) for _ in range(6)]
    kept = options.get("keep", [1] if options.get("dims") else range(4))
    kept = [dim % 4 for dim in kept]
    groups = torch.stack(parts).permute(*(dim + 1 for dim in kept), 0, *(d + 1 for d in range(4) if d not in kept))
    groups = groups.reshape(*(parts[0].shape[dim] for dim in kept), -1)
    if exact:
        found, alone = run(parts, **options), None
    else:
        with few_are_kept():
            found, alone = run(parts, **options), None
    for index in np.ndindex(*groups.shape[:-1]):
        alone = {key: value[index] for key, value in found.items()}
        alone = {key: value.item() if value.ndim == 0 else value for key, value in alone.items()}
        assert_as_numpy(alone, groups[index].double().numpy(), exact)


def test_quantiles_and_histogram_agree_with_the_summary() -> None:
    parts = [torch.randn(50, 4) for _ in range(3)]
    for options in ({}, {"keep": [1]}, {"precise": True}):
        summary = run(parts, **options)
        for name in ("quantiles", "histogram"):
            for key, value in run(parts, name, **options).items():
                assert np.array_equal(value, summary[key]), key


def test_quantiles_agree_with_torch() -> None:
    x = torch.randn(8, 16)
    found = run(list(x.split(3)), "quantiles", keep=[1])["quantiles"]
    assert torch.allclose(found.float().T, torch.quantile(x, torch.tensor(SHARES), dim=0), atol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_infinities_are_values_but_in_no_bin(exact: bool) -> None:
    x = torch.tensor([-inf, 1.0, 2.2, 3.4, 4.0, inf, inf, nan])
    if exact:
        found = run([x[:3], x[3:]], bins=3)
    else:
        with few_are_kept():
            found = run([x[:3], x[3:]], bins=3)
    assert (found["min"], found["max"], found["count"], found["nan_count"]) == (-inf, inf, 7, 1)
    assert found["counts"].tolist() == [1, 1, 2]
    tolerance = 0.0 if exact else 2 * RELATIVE_ERROR
    assert found["edges"].tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0], rel=tolerance or 1e-12)
    assert found["quantiles"][-1] == inf
    assert found["quantiles"][0] == -inf


@pytest.mark.parametrize("exact", [True, False])
def test_a_group_of_nans_has_no_values_and_empty_bins(exact: bool) -> None:
    parts = [torch.tensor([[1.0, nan], [2.0, nan], [3.0, nan]])] * 2
    if exact:
        found = run(parts, keep=[1])
    else:
        with few_are_kept():
            found = run(parts, keep=[1])
    assert found["count"].tolist() == [6, 0]
    assert found["nan_count"].tolist() == [0, 6]
    assert found["counts"].sum(1).tolist() == [6, 0]
    assert found["zeros"].tolist() == [0, 0]
    for key in ("min", "max", "mean", "variance", "quantiles", "edges"):
        assert found[key][1].isnan().all()
        assert not found[key][0].isnan().any()


def test_results_agree_with_hand_computed_numbers() -> None:
    found = run([[0.0, 1.0], [1.0, 4.0, nan]], shares=[0.5], bins=2)
    assert found["edges"].tolist() == [0, 2, 4]
    assert found["counts"].tolist() == [3, 1]
    assert found["quantiles"].tolist() == [1]
    single = {key: value for key, value in found.items() if not isinstance(value, Tensor)}
    assert single == {
        **{"min": 0, "max": 4, "range": 4, "mean": 1.5, "variance": 3, "relative_error": 0},
        **{"zeros": 1, "count": 4, "nan_count": 1},
    }


@pytest.mark.parametrize("name", ["summary", "quantiles", "histogram", "range_quantile"])
def test_memory_does_not_grow_with_the_number_of_samples(name: str) -> None:
    statistic = make_statistic(name, {}, "test")
    sizes = []
    for _ in range(4):
        for _ in range(20):
            statistic.update(torch.randn(MAX_EXACT_VALUES + 1))  # 0.25 MB each
        sizes.append(len(pickle.dumps(statistic)))
    assert sizes[3] < 1.1 * sizes[1] < 200_000  # the tails still fill a few new bins


def test_python_allocations_do_not_grow() -> None:
    statistic = make_statistic("summary", {}, "test")
    x = torch.randn(MAX_EXACT_VALUES + 1)
    statistic.update(x)
    tracemalloc.start()
    try:
        statistic.update(x)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(50):
            statistic.update(x)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000


def test_precise_keeps_all_values() -> None:
    statistic = seen([torch.randn(MAX_EXACT_VALUES) for _ in range(5)], precise=True)
    assert len(pickle.dumps(statistic)) > 5 * 4 * MAX_EXACT_VALUES


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("quantiles", {"shares": []}, "'shares' must be numbers from 0 to 1, got []"),
        ("quantiles", {"shares": [0.5, 1.5]}, "'shares' must be numbers from 0 to 1, got [0.5, 1.5]"),
        ("summary", {"shares": [-0.1]}, "'shares' must be numbers from 0 to 1"),
        ("histogram", {"bins": 0}, "'bins' must be from 1 to 4096, got 0"),
        ("summary", {"bins": 5000}, "'bins' must be from 1 to 4096, got 5000"),
        ("summary", {"dims": [0], "keep": [1]}, "give either 'dims', the dimensions to reduce, or 'keep'"),
        ("summary", {"share": [0.5]}, "unknown key 'share'; did you mean 'shares'"),
    ],
)
def test_mistakes_are_reported(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is checked below
        make_statistic(name, options, "here")
    assert message in str(raised.value)


def test_a_dimension_that_does_not_exist_is_reported() -> None:
    with pytest.raises(ValueError, match=r"keep \[1\] do not fit a tensor of shape \[4\]"):
        run([torch.zeros(4)], keep=[1])
