"""Statistics of several updates, compared with numpy on all values."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from chop.registry import UnknownNameError
from chop.statistics import STATISTICS, Statistic, make_statistic
from chop.statistics.distribution import MAX_EXACT_VALUES, MAX_EXACT_VALUES_PER_GROUP
from chop.statistics.log_histogram import RELATIVE_ERROR
from chop.statistics.record import Record

Array = NDArray[np.float64]
Axes = tuple[int, ...] | None

pytestmark = pytest.mark.slow

REDUCTIONS = ("abs_mean", "range_min_max", "range_n_sigma", "range_quantile", "variance_online", "variance_precise")
"""The statistics with single numbers as results; the others are tested in test_summary_statistic.py."""
Q = 0.9


def by_numpy(name: str, data: Array, axes: Axes = None) -> dict[str, Array]:
    """Return the expected results of the statistic `name` on all values; `axes=None` reduces everything."""
    mean = data.mean(axes)
    with np.errstate(all="ignore"):
        sigma = data.std(axes, ddof=1) if data.size > 1 else np.asarray(nan)
    low, high = data.min(axes), data.max(axes)
    quantiles = [np.quantile(data, q, axis=axes) for q in (1 - Q, Q)]
    results: dict[str, dict[str, Any]] = {
        "variance_precise": {"mean": mean, "variance": sigma**2},
        "variance_online": {"mean": mean, "variance": sigma**2},
        "range_n_sigma": {"min": mean - 3 * sigma, "max": mean + 3 * sigma, "range": 6 * sigma},
        "range_min_max": {"min": low, "max": high, "range": high - low},
        "range_quantile": {"min": quantiles[0], "max": quantiles[1], "range": quantiles[1] - quantiles[0]},
        "abs_mean": {"abs_mean": np.abs(data).mean(axes)},
    }
    return results[name] | {"count": data.size // np.asarray(mean).size * np.ones_like(mean)}


def made(name: str, **options: Any) -> Statistic:
    return make_statistic(name, options | ({"quantile": Q} if name == "range_quantile" else {}), "test")


def run(name: str, parts: list[Any], **options: Any) -> dict[str, Any]:
    statistic = made(name, **options)
    for part in parts:
        statistic.update(torch.as_tensor(part))
    return statistic.compute()


def assert_agree(found: Mapping[str, Any], expected: Mapping[str, Any], largest: float) -> None:
    """Check counts exactly, other results within 1e-6 of the largest magnitude, or of its square for a variance."""
    assert list(found) == list(expected)
    for key, value in expected.items():
        scale = {"count": 0.0, "variance": largest**2}.get(key, largest)
        np.testing.assert_allclose(np.asarray(found[key]), value, rtol=0, atol=1e-6 * scale, err_msg=key)


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
data_in_parts = st.lists(st.lists(numbers, min_size=1, max_size=20), min_size=1, max_size=8)


@pytest.mark.parametrize("name", REDUCTIONS)
@given(parts=data_in_parts)
@settings(max_examples=25, deadline=None)
def test_several_updates_agree_with_numpy_on_all_values(name: str, parts: list[list[float]]) -> None:
    data = np.concatenate(parts).astype(np.float64)
    found = run(name, [np.asarray(part, dtype=np.float32) for part in parts])
    assert_agree(found, by_numpy(name, data), np.abs(data).max())
    assert all(type(value) in (int, float) for value in found.values())


@given(parts=data_in_parts)
@settings(max_examples=25, deadline=None)
def test_extremes_are_exact(parts: list[list[float]]) -> None:
    found = run("range_min_max", [np.asarray(part, dtype=np.float32) for part in parts])
    data = [value for part in parts for value in part]
    assert (found["min"], found["max"], found["count"]) == (min(data), max(data), len(data))


@pytest.mark.parametrize("name", REDUCTIONS)
@given(parts=data_in_parts, at=st.integers(0, 8))
@settings(max_examples=15, deadline=None)
def test_merging_equals_one_run(name: str, parts: list[list[float]], at: int) -> None:
    first, second = made(name), made(name)
    for part in parts[:at]:
        first.update(torch.tensor(part))
    for part in parts[at:]:
        second.update(torch.tensor(part))
    first.merge(second)
    largest = max(abs(value) for part in parts for value in part)
    assert_agree(first.compute(), run(name, [np.asarray(part, dtype=np.float32) for part in parts]), largest)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axes", [(0,), (0, 2), (-1,), (2, 1), (0, 1, 2)])
def test_reduced_dimensions_are_numpys_axes(name: str, axes: tuple[int, ...]) -> None:
    parts = [torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(i)).double() for i in range(6)]
    found = run(name, parts, dims=list(axes))
    # The updates are one more dimension, which is reduced as well.
    stacked = np.stack([part.numpy() for part in parts])
    expected = by_numpy(name, stacked, (0, *(axis + 1 if axis >= 0 else axis for axis in axes)))
    assert_agree(found, expected, np.abs(stacked).max())
    assert all(isinstance(value, Tensor) for value in found.values())


@pytest.mark.parametrize("name", REDUCTIONS)
def test_dims_none_reduces_over_updates_only(name: str) -> None:
    parts = [torch.randn(4, 3, generator=torch.Generator().manual_seed(i)).double() for i in range(7)]
    stacked = np.stack([part.numpy() for part in parts])
    assert_agree(run(name, parts, dims=None), by_numpy(name, stacked, (0,)), np.abs(stacked).max())


ADVERSARIAL: dict[str, Array] = {
    "far from zero": 1e8 + np.sin(np.arange(300.0)),
    "huge and small in turn": np.tile([3e38, 1.0, -3e38, 1e-30], 75),
    "rising": np.arange(300.0),
    "falling": np.arange(300.0)[::-1].copy(),
    "tiny": 1e-40 * np.cos(np.arange(300.0)),
    "one outlier at the end": np.append(np.zeros(299), 1e30),
    "constant": np.full(300, 0.1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("kind", ADVERSARIAL)
@pytest.mark.parametrize("part_size", [1, 7, 300])
def test_adversarial_orders(name: str, kind: str, part_size: int) -> None:
    data = ADVERSARIAL[kind].astype(np.float32).astype(np.float64)
    parts = np.split(data.astype(np.float32), range(part_size, len(data), part_size))
    assert_agree(run(name, list(parts)), by_numpy(name, data), np.abs(data).max())


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    data = 1e8 + np.sin(np.arange(300.0))
    found = run("variance_online", list(np.split(data, 10)))
    assert found["variance"] == pytest.approx(np.sin(np.arange(300.0)).var(ddof=1), rel=1e-6)


BY_HAND: list[tuple[str, dict[str, Any], list[float], dict[str, float]]] = [
    ("variance_precise", {}, [1, 2, 3, 4], {"mean": 2.5, "variance": 5 / 3, "count": 4}),
    ("variance_online", {}, [1, 2, 3, 4], {"mean": 2.5, "variance": 5 / 3, "count": 4}),
    ("range_n_sigma", {"num_sigma": 2}, [-1, 0, 1], {"min": -2, "max": 2, "range": 4, "count": 3}),
    ("range_quantile", {"quantile": 0.75}, [4, 0, 2, 1, 3], {"min": 1, "max": 3, "range": 2, "count": 5}),
    ("range_quantile", {"quantile": 0.875}, [4, 0, 2, 1, 3], {"min": 0.5, "max": 3.5, "range": 3, "count": 5}),
    ("range_quantile", {"quantile": 1}, [4, 0, 2], {"min": 0, "max": 4, "range": 4, "count": 3}),
    ("range_min_max", {}, [4, -7, 2], {"min": -7, "max": 4, "range": 11, "count": 3}),
    ("abs_mean", {}, [-1, 3, -5], {"abs_mean": 3, "count": 3}),
]


@pytest.mark.parametrize(("name", "options", "values", "expected"), BY_HAND)
def test_results_agree_with_hand_computed_numbers(
    name: str, options: dict[str, Any], values: list[float], expected: dict[str, float]
) -> None:
    statistic = make_statistic(name, {"dims": "all", "device": "cpu"} | options, "test")
    statistic.update(torch.tensor(values[:2], dtype=torch.float32))
    statistic.update(torch.tensor(values[2:], dtype=torch.float32))
    found = statistic.compute()
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)


def test_quantiles_agree_with_torch() -> None:
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    found = run("range_quantile", list(x.split(3)), dims=[0])
    assert torch.allclose(found["min"].float(), torch.quantile(x, 1 - Q, dim=0), atol=1e-6)
    assert torch.allclose(found["max"].float(), torch.quantile(x, Q, dim=0), atol=1e-6)


LARGE: dict[str, Array] = {
    "normal": np.random.default_rng(0).normal(size=200_000),
    "heavy tails": np.random.default_rng(1).standard_cauchy(size=200_000),
    "tiny": 1e-42 * np.random.default_rng(2).lognormal(size=200_000),
    "huge": 1e300 * np.random.default_rng(3).normal(size=200_000),
    "mostly zero": np.maximum(np.random.default_rng(4).normal(size=200_000), 0),
    "few levels": np.random.default_rng(5).integers(-7, 8, size=200_000) / 4,
    "minus zero": np.full(200_000, -0.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("q", [0.75, 0.97, 0.999, 1.0])
def test_quantiles_of_many_values_are_within_the_stated_error(kind: str, q: float) -> None:
    assert len(LARGE[kind]) > MAX_EXACT_VALUES
    statistic = make_statistic("range_quantile", {"quantile": q}, "test")
    for part in np.split(LARGE[kind], 8):
        statistic.update(torch.from_numpy(part))
    found = statistic.compute()
    low, high = np.quantile(LARGE[kind], [1 - q, q])
    assert found["min"] == pytest.approx(low, rel=RELATIVE_ERROR, abs=0)
    assert found["max"] == pytest.approx(high, rel=RELATIVE_ERROR, abs=0)
    assert found["count"] == 200_000


@pytest.mark.parametrize("groups", [1, 3, 40])
def test_quantiles_of_many_values_do_not_depend_on_their_order(groups: int) -> None:
    x = torch.randn(groups, 3 * MAX_EXACT_VALUES // groups)
    at_once = run("range_quantile", [x], dims=[1])
    shuffled = x[:, torch.randperm(x.shape[1])]
    in_parts = run("range_quantile", list(shuffled.split(1000, dim=1)), dims=[1])
    first, second = made("range_quantile", dims=[1]), made("range_quantile", dims=[1])
    first.update(x[:, :10])
    second.update(x[:, 10:])
    first.merge(second)
    for key, value in at_once.items():
        assert torch.equal(in_parts[key], value)
        assert torch.equal(first.compute()[key], value)
    expected = torch.quantile(x, Q, dim=1)
    assert ((at_once["max"] - expected).abs() <= RELATIVE_ERROR * expected.abs() + 1e-6).all()


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if name != "range_quantile"])
@pytest.mark.parametrize("dims", ["all", [0], None])
def test_memory_does_not_grow_with_the_number_of_samples(name: str, dims: Any) -> None:
    statistic = made(name, dims=dims)
    statistic.update(torch.randn(64, 64))
    size = len(pickle.dumps(statistic))
    for _ in range(20):
        statistic.update(torch.randn(64, 64))
    assert len(pickle.dumps(statistic)) == size


@pytest.mark.parametrize(("dims", "groups"), [("all", 1), ([0], 64), (None, 64 * 64)])
def test_memory_of_quantiles_is_bounded(dims: Any, groups: int) -> None:
    statistic = made("range_quantile", dims=dims)
    largest = 0
    for step in range(200):  # 3.3 MB of 17 different values
        statistic.update(torch.randint(-8, 9, (64, 64)) / 4)
        if step % 16 == 15:  # just before the values of "all" are put into the histogram
            largest = max(largest, len(pickle.dumps(statistic)))
    exact = 4 * max(MAX_EXACT_VALUES, MAX_EXACT_VALUES_PER_GROUP * groups)
    histogram = 17 * 16 * groups
    assert largest <= exact + histogram + 32 * groups + 10_000  # extremes, counts, overhead of pickle


def test_record_keeps_all_values_in_order() -> None:
    found = run("record", [torch.tensor([[1.0, nan]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]])])
    assert found["data"].nan_to_num(nan=2.0).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert (found["count"], found["size"]) == (6, 24)


def test_record_keeps_many_small_tensors_in_few_parts() -> None:
    statistic = made("record")
    for i in range(1000):
        statistic.update(torch.full((1, 3), float(i)))
    assert isinstance(statistic, Record)
    assert len(statistic._parts) <= 10  # one per bit of 1000
    assert statistic.compute()["data"][:, 0].tolist() == list(range(1000))
    assert len(statistic._parts) == 1


def test_record_merges() -> None:
    first, second = made("record"), made("record")
    first.update(torch.tensor(1.0))
    second.update(torch.tensor([2.0, 3.0]))
    first.merge(second)
    assert first.compute()["data"].tolist() == [1, 2, 3]
    other = made("record")
    other.update(torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"shape \[2, 2\] cannot be concatenated with earlier ones of shape \[3\]"):
        first.merge(other)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("dims", ["all", [0], None])
def test_tensors_are_neither_changed_nor_kept(name: str, dims: Any) -> None:
    x = torch.randn(4, 3)
    before = x.clone()
    statistic = made(name, dims=dims)
    statistic.update(x)
    assert torch.equal(x, before)
    expected = statistic.compute()
    x.zero_()
    found = statistic.compute()
    for key, value in expected.items():
        assert np.array_equal(found[key], value, equal_nan=True)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_nans_are_left_out_and_counted(name: str) -> None:
    data = np.array([1.0, 5.0, -2.0, 4.0])
    found = run(name, [[nan, 1.0, 5.0], [nan, nan], [-2.0, nan, 4.0]])
    assert found.pop("nan_count") == 4
    assert_agree(found, by_numpy(name, data), 5.0)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_nans_are_only_left_out_of_their_group(name: str) -> None:
    parts = [torch.tensor([[1.0, nan], [2.0, nan]]), torch.tensor([[4.0, nan], [nan, nan]])]
    found = run(name, parts, dims=[0])
    assert found.pop("nan_count").tolist() == [1, 4]
    assert found.pop("count").tolist() == [3, 0]
    expected = by_numpy(name, np.array([1.0, 2.0, 4.0]))
    for key, value in found.items():
        assert value[0].item() == pytest.approx(expected[key])
        assert value[1].isnan()


def test_many_values_with_nans() -> None:
    x = torch.arange(2.0 * MAX_EXACT_VALUES).reshape(2, -1)
    x[0, ::2] = nan
    found = run("range_quantile", [x], dims=[1])
    assert found["count"].tolist() == [MAX_EXACT_VALUES // 2, MAX_EXACT_VALUES]
    assert found["max"].numpy() == pytest.approx(np.nanquantile(x.numpy(), Q, axis=1), rel=RELATIVE_ERROR)
    only_nans = run("range_quantile", [torch.full((2 * MAX_EXACT_VALUES,), nan)])
    assert np.isnan(only_nans["min"])
    assert (only_nans["count"], only_nans["nan_count"]) == (0, 2 * MAX_EXACT_VALUES)


def test_infinities_are_values() -> None:
    data = [inf, 1.0, -inf, 2.0]
    assert run("range_min_max", [data])["range"] == inf
    assert "nan_count" not in run("range_min_max", [data])
    assert run("abs_mean", [data])["abs_mean"] == inf
    assert run("variance_precise", [[1.0], [inf], [2.0]])["mean"] == inf
    assert np.isnan(run("variance_precise", [[1.0], [inf], [2.0]])["variance"])
    found = run("range_quantile", [[1.0, inf, inf, inf]])
    assert (found["min"], found["max"]) == (inf, inf)
    many = torch.full((2 * MAX_EXACT_VALUES,), inf)
    many[: MAX_EXACT_VALUES // 2] = 1.0
    assert run("range_quantile", [many])["max"] == inf


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.bool])
def test_every_real_dtype_is_accepted(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    assert_agree(run(name, [x, x]), by_numpy(name, np.tile([0.0, 1.0, 1.0, 0.0, 1.0], 2)), 1.0)


def test_half_precision_is_summed_in_double() -> None:
    x = torch.full((100_000,), 60000.0, dtype=torch.float16)
    assert run("variance_precise", [x])["mean"] == 60000
    assert run("abs_mean", [x])["abs_mean"] == 60000


@pytest.mark.parametrize("name", STATISTICS)
def test_without_values_the_count_is_zero(name: str) -> None:
    assert made(name).compute() == {"count": 0}
    empty = made(name)
    empty.update(torch.zeros(0, 3))
    assert empty.compute()["count"] == 0
    other = made(name)
    other.update(torch.ones(2, 3))
    empty.merge(other)
    assert empty.compute()["count"] == 6


@pytest.mark.parametrize("name", STATISTICS)
def test_a_wrong_option_is_reported(name: str) -> None:
    with pytest.raises(ValueError, match=f"here: '{name}': unknown key 'dim'; did you mean 'dims'"):
        make_statistic(name, {"dim": "all"}, "here")
    with pytest.raises(ValueError, match=r"'dims' must be 'all'.*did you mean 'all'"):
        make_statistic(name, {"dims": "al"}, "here")
    with pytest.raises(ValueError, match="is not a torch device"):
        make_statistic(name, {"device": "cupboard"}, "here")


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'quantile' must be from 0.5 to 1, got 0.03"):
        make_statistic("range_quantile", {"quantile": 0.03}, "here")
    with pytest.raises(ValueError, match="'num_sigma' must be above 0, got -1"):
        make_statistic("range_n_sigma", {"num_sigma": -1}, "here")
    with pytest.raises(UnknownNameError, match="unknown statistic 'range_minmax'; did you mean 'range_min_max'"):
        make_statistic("range_minmax", {}, "here")


@pytest.mark.parametrize("dims", [[2], [-3], [0, 0], [0, -2]])
def test_dims_that_do_not_fit_are_refused(dims: list[int]) -> None:
    with pytest.raises(ValueError, match=r"do not fit a tensor of shape \[4, 3\]"):
        run("range_min_max", [torch.zeros(4, 3)], dims=dims)


def test_kept_dimensions_must_not_change() -> None:
    with pytest.raises(ValueError, match=r"not reduced changed from \[8, 3\] to \[2, 3\]"):
        run("range_min_max", [torch.zeros(8, 3), torch.zeros(2, 3)], dims=None)


def test_only_statistics_with_the_same_options_merge() -> None:
    with pytest.raises(ValueError, match="same options"):
        made("range_min_max").merge(made("range_min_max", dims=None))
    with pytest.raises(ValueError, match="same options"):
        made("range_min_max").merge(made("abs_mean"))


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="real numbers"):
        run("abs_mean", [torch.zeros(2, dtype=torch.complex64)])
