"""Error measures, compared with numpy and with hand-computed numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from chop.statistics.deviation import Deviation, decibel

NAN, INF = math.nan, math.inf


def deviation(original: object, other: object) -> Deviation:
    found = Deviation()
    found.add(original, other)
    return found


def test_the_errors_of_two_numbers() -> None:
    found = deviation(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 3.5]))
    assert found.sqnr_db == pytest.approx(10 * math.log10(25 / 0.25))  # 20 dB
    assert found.max_error == 0.5
    assert found.cosine == pytest.approx((9 + 14) / (5 * math.sqrt(9 + 12.25)))


@pytest.mark.parametrize("size", [1, 1000, 2**17 + 3, 2**15])
def test_tensors_of_any_size_and_layout_agree_with_numpy(size: int) -> None:
    draw = np.random.default_rng(size)
    a = draw.normal(size=(size, 2)).astype(np.float32)
    b = a + draw.normal(scale=0.01, size=(size, 2)).astype(np.float32)
    found = deviation(torch.from_numpy(a).t(), torch.from_numpy(b.T.copy()))
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    noise = np.square(b64 - a64).sum()
    assert found.sqnr_db == pytest.approx(10 * np.log10(np.square(a64).sum() / noise), rel=1e-12)
    assert found.max_error == np.abs(b64 - a64).max()
    assert found.cosine == pytest.approx(
        (a64 * b64).sum() / np.linalg.norm(a64.ravel()) / np.linalg.norm(b64.ravel()), rel=1e-12
    )


def test_several_additions_equal_one() -> None:
    a, b = torch.randn(10, 3), torch.randn(10, 3)
    parts = Deviation()
    for start in (0, 4):
        end = start + (4 if start == 0 else 6)
        parts.add(a[start:end], b[start:end])
    at_once = deviation(a, b)
    assert parts.sqnr_db == pytest.approx(at_once.sqnr_db, rel=1e-12)
    assert parts.cosine == pytest.approx(at_once.cosine, rel=1e-12)
    assert parts.max_error == at_once.max_error


@pytest.mark.parametrize(
    ("original", "other", "sqnr_db", "max_error", "cosine"),
    [
        ([1.0, 2.0], [1.0, 2.0], INF, 0, 1),
        ([0.0, 0.0], [0.0, 0.0], INF, 0, 1),
        ([0.0, 0.0], [0.0, 1.0], -INF, 1, 0),
        ([3.0, 0.0], [0.0, 0.0], 0, 3, 0),
        ([1.0, NAN], [1.0, NAN], INF, 0, 1),
        ([1.0, INF], [1.5, INF], 10 * math.log10(4), 0.5, 1),
        ([1.0, INF], [1.0, -INF], -INF, INF, 0),
        ([1.0, 1.0], [1.0, NAN], -INF, INF, 0),
        ([NAN, 1.0], [1.0, 1.0], -INF, INF, 0),
        ([1.0, 1.0], [INF, 1.0], -INF, INF, 0),
        ([], [], INF, 0, 1),
        ([2.0], [-2.0], 10 * math.log10(1 / 4), 4, -1),
    ],
)
def test_special_values(
    original: list[float], other: list[float], sqnr_db: float, max_error: float, cosine: float
) -> None:
    found = deviation(torch.tensor(original), torch.tensor(other))
    assert (found.sqnr_db, found.max_error, found.cosine) == pytest.approx((sqnr_db, max_error, cosine))


def test_integers_are_ignored_if_there_are_floats() -> None:
    values, indices = torch.tensor([4.0]), torch.tensor([1])
    assert deviation((values, indices), (values, indices + 7)).sqnr_db == INF
    assert deviation(indices, indices + 7).max_error == 7
    assert deviation({"a": [values]}, {"a": [values - 1]}).max_error == 1
    assert deviation(torch.tensor([3 + 4j]), torch.tensor([3 + 3j])).sqnr_db == pytest.approx(10 * math.log10(25))


def test_other_shapes_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match=r"same shape can be compared, got \[\[2\]\] and \[\[3\]\]"):
        deviation(torch.zeros(2), torch.zeros(3))


def test_ratios_beyond_the_range_of_floats() -> None:
    assert decibel(1e-300, 1e300) == pytest.approx(-6000)
    assert decibel(1e300, 1e-300) == pytest.approx(6000)
