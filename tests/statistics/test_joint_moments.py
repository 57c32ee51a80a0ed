"""Statistics of many tensors from their moments: those of an update with each tensor alone."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
import torch
from torch import Tensor

from chop.formats.kernels.run import settings
from chop.statistics import Statistic, make_statistic
from chop.statistics import joint_moments as joint
from chop.statistics.joint_moments import JointMoments, shared_layout
from chop.statistics.layout import Layout

pytestmark = pytest.mark.usefixtures("loops")

TENSORS = [
    torch.randn(2, 3, 4, 5),
    torch.randn(2, 3, 70, 50) + 100,
    torch.randn(3, 2, 5, 4).transpose(0, 1),
    torch.zeros(1, 3, 1, 1),
]


def statistics(names: list[str], **options: Any) -> dict[str, Statistic]:
    return {name: make_statistic(name, options, "test") for name in names}


@pytest.mark.parametrize("options", [{}, {"keep": [1]}, {"dims": [0, 2]}])
@pytest.mark.parametrize("num_rows", [1, 100])
def test_they_are_those_of_an_update(
    options: dict[str, Any], num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint, "_NUM_ROWS", num_rows)
    names = ["range_min_max", "range_n_sigma", "variance_online", "variance_precise"]
    layout = shared_layout(statistics(names, **options).values())
    assert layout is not None
    moments = JointMoments(statistics(names, **options), layout)
    measured = [moments.measure(tensor) for tensor in TENSORS]
    assert all((found is not None) == settings.enabled for found in measured)
    moments.make_statistics()
    for tensor, found in zip(TENSORS, measured, strict=True):
        for name, statistic in statistics(names, **options).items():
            statistic.update(tensor)
            if found is not None:
                assert list(found) == names
                (header, state), (expected_header, expected) = found[name].save(), statistic.save()
                assert header == expected_header
                assert list(state) == list(expected)
                assert all(state[part].equal(expected[part]) for part in expected)
                assert all(state[part].dtype is expected[part].dtype for part in expected)
                assert all(each.untyped_storage().nbytes() == each.nbytes for each in state.values())


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([1.0, nan]),
        torch.tensor([1.0, inf]),
        torch.zeros(0),
        torch.ones(2, dtype=torch.int64),
        torch.ones(2).double(),
    ],
)
def test_tensors_without_moments_by_a_loop_leave_nothing_behind(tensor: Tensor) -> None:
    moments = JointMoments(statistics(["range_min_max"]), Layout("all", None, None))
    assert moments.measure(tensor) is None
    found = moments.measure(torch.tensor([3.0, -2.0]))
    moments.make_statistics()
    if found is not None:
        assert found["range_min_max"].compute() == {"min": -2.0, "max": 3.0, "range": 5.0, "count": 2}


def test_a_dimension_that_a_tensor_does_not_have_is_left_to_the_update() -> None:
    assert (
        JointMoments(statistics(["range_min_max"], keep=[1]), Layout("all", (1,), None)).measure(torch.ones(2))
        is None
    )


def test_other_statistics_need_the_values() -> None:
    assert shared_layout(statistics(["range_min_max", "summary"]).values()) is None
    assert shared_layout(statistics(["range_min_max", "record"]).values()) is None
    assert (
        shared_layout(
            [*statistics(["range_min_max"], keep=[1]).values(), *statistics(["variance_online"]).values()]
        )
        is None
    )
    assert shared_layout([]) is None
