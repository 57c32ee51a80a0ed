"""Every statistic of values on another device: the same result as on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from chop.statistics import STATISTICS
from contracts.test_statistics import LAYOUTS, batches, updated
from device.other import NAME


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_is_the_same_on_another_device(name: str, options: dict[str, Any]) -> None:
    tensors = batches()
    expected = updated(name, options, tensors).compute()
    found = updated(name, options, [tensor.to(NAME) for tensor in tensors]).compute()

    def same(found: Any, expected: Any) -> None:
        if isinstance(expected, dict):
            assert found.keys() == expected.keys()
            for key in expected:
                same(found[key], expected[key])
        elif isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found.cpu(), expected, equal_nan=True)
        else:
            assert found == pytest.approx(expected, nan_ok=True)

    same(found, expected)
