"""Results of many statistics that are computed together: those of each statistic alone."""

from __future__ import annotations

from math import inf, nan
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from chop.statistics import Histogram, RangeNSigma, Record, Summary, VariancePrecise
from chop.statistics.base import Reduction
from chop.statistics.joint_results import compute_all

TENSORS = [
    *torch.randn(5, 4, 3).unbind(),
    torch.tensor([[1.0, nan, 0.0], [inf, -0.0, -2.5]]),
    torch.full((4, 3), -inf),
    torch.full((4, 3), nan),
    torch.full((4, 3), 7.0),
    torch.randn(4, 3).double(),
    torch.randn(70_000),
    torch.zeros(0),
    torch.arange(12).reshape(4, 3),
    torch.tensor([3.0e38, -3.0e38]),
]


def observed(statistic: Reduction[Any], *tensors: Tensor) -> Reduction[Any]:
    for tensor in tensors:
        statistic.update(tensor)
    return statistic


def same(left: object, right: object) -> bool:
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.dtype == right.dtype and left.allclose(right, rtol=0, atol=0, equal_nan=True)
    return type(left) is type(right) and repr(left) == repr(right)


@pytest.mark.parametrize(
    "make", [Summary, Histogram, VariancePrecise, lambda: Summary(precise=True), lambda: Summary(dims=(0,))]
)
def test_results_are_those_of_each_statistic_alone(make: Any) -> None:
    tensors = TENSORS
    statistics = [observed(make(), tensor) for tensor in tensors]
    statistics += [observed(make(), tensor, tensor) for tensor in tensors]
    statistics.append(make())
    for statistic, result in zip(statistics, compute_all(statistics), strict=True):
        alone = statistic.compute()
        assert list(result) == list(alone)
        for name, value in alone.items():
            assert same(result[name], value), name


def test_tensors_of_one_shape_are_computed_once() -> None:
    statistics = [observed(Summary(), torch.randn(4, 3)) for _ in range(50)]
    with patch.object(Summary, "summarize", autospec=True, side_effect=Summary.summarize) as summarize:
        compute_all(statistics)
    assert summarize.call_count == 1


def test_statistics_with_other_options_are_computed_separately() -> None:
    tensor = torch.randn(40)
    statistics = [
        observed(Summary(bins=8), tensor),
        observed(Summary(bins=16), tensor),
        observed(RangeNSigma(num_sigma=2.0), tensor),
        observed(RangeNSigma(num_sigma=4.0), tensor),
    ]
    record = Record()
    record.update(tensor)
    first, second, narrow, wide, all_values = compute_all([*statistics, record])
    assert (len(first["counts"]), len(second["counts"])) == (8, 16)
    assert wide["range"] == 2 * narrow["range"]
    assert all_values["data"].equal(tensor)


def test_no_statistics_have_no_results() -> None:
    assert compute_all([]) == []
