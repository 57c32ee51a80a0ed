"""Statistics with and without compiled loops, compared with numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from chop.formats.kernels.row_statistics import code_counts, row_moments
from chop.statistics import make_statistic

pytestmark = pytest.mark.usefixtures("loops")

TENSORS = {
    "normal": torch.randn(7, 5003, generator=torch.Generator().manual_seed(1)) + 3,
    "far from zero": torch.randn(70_001, generator=torch.Generator().manual_seed(2)) + 1e4,
    "large": torch.randn(70_001, generator=torch.Generator().manual_seed(3)) * 1e30,
    "subnormal": torch.randn(70_001, generator=torch.Generator().manual_seed(4)) * 1e-40,
    "zeros": torch.zeros(70_001),
    "few": torch.tensor([1.0, -2.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("has_nan", [False, True])
def test_a_summary_agrees_with_numpy(name: str, has_nan: bool) -> None:
    x = TENSORS[name].clone()
    if has_nan:
        x.view(-1)[0] = math.nan
    statistic = make_statistic("summary", {}, "test")
    statistic.update(x)
    found, values = statistic.compute(), x.double().numpy().ravel()
    values = values[~np.isnan(values)]
    assert (found["min"], found["max"], found["count"]) == (values.min(), values.max(), len(values))
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12, abs=1e-15 * np.abs(values).max())
    if len(values) > 1:
        assert found["variance"] == pytest.approx(values.var(ddof=1), rel=1e-12)
    assert found["nan_count"] == has_nan
    assert found["zeros"] == (values == 0).sum()
    assert found["counts"].sum() == len(values)
    median = found["quantiles"][4]
    assert median == pytest.approx(np.median(values), rel=0.008)


def test_channels_have_their_own_moments() -> None:
    x = torch.randn(4, 6, 50, 60) * torch.arange(1, 7).view(1, 6, 1, 1)
    statistic = make_statistic("variance_online", {"keep": [1]}, "test")
    statistic.update(x)
    expected = x.double().numpy().var(axis=(0, 2, 3), ddof=1)
    assert np.allclose(statistic.compute()["variance"].numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "x",
    [
        torch.full((2, 5001), 0.1),
        torch.randn(2, 5000) * 1e-3 + 1000,
        torch.cat([torch.full((1, 1), 1e6), torch.randn(1, 9999)], dim=1),
        torch.tensor([3e38, -3e38]).repeat(1, 3000),
        -torch.rand(3, 7),
    ],
    ids=["constant", "far from zero", "outlier", "sum overflows in float32", "negative"],
)
def test_moments_of_difficult_rows_are_those_of_numpy(x: Tensor) -> None:
    found: dict[str, Any] = {}
    values = x.double().numpy()
    for name in ("range_min_max", "variance_online"):
        statistic = make_statistic(name, {"keep": [0]}, "test")
        statistic.update(x)
        found |= statistic.compute()
    assert found["min"].tolist() == values.min(axis=1).tolist()
    assert found["max"].tolist() == values.max(axis=1).tolist()
    assert np.allclose(found["mean"].numpy(), values.mean(axis=1), rtol=1e-12, atol=1e-15 * np.abs(values).max())
    assert np.allclose(found["variance"].numpy(), values.var(axis=1, ddof=1), rtol=1e-11, atol=1e-30)


def test_smallest_of_rectified_values_is_positive_zero() -> None:
    found = row_moments(torch.tensor([[0.0, -0.0, 5.0]]))
    assert found is None or math.copysign(1, found[0].item()) == 1


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_other_than_finite_numbers_have_no_moments_by_a_loop(value: float) -> None:
    x = torch.randn(1, 100)
    x[0, 3] = value
    assert row_moments(x) is None


@pytest.mark.parametrize("x", [torch.randn(2, 64).double(), torch.randn(64, 2).t(), torch.full((1, 64), 1e-40)])
def test_histograms_that_no_loop_counts(x: Tensor) -> None:
    assert code_counts(x) is None
