"""Statistics with and without compiled loops, compared with numpy."""

from __future__ import annotations

import math

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


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_other_than_finite_numbers_have_no_moments_by_a_loop(value: float) -> None:
    x = torch.randn(1, 100)
    x[0, 3] = value
    assert row_moments(x) is None


@pytest.mark.parametrize("x", [torch.randn(2, 64).double(), torch.randn(64, 2).t(), torch.full((1, 64), 1e-40)])
def test_histograms_that_no_loop_counts(x: Tensor) -> None:
    assert code_counts(x) is None
