"""The comparison of counters: ours equals the count by hand, and known differences are explained."""

from __future__ import annotations

import pytest
import torch
from benchmarks.counters import CASES, Case, compare_counters, count_ours, count_torch, why
from torch import nn

ATTENTION = Case("attention", nn.Identity, (2, 10, 32), layers=80, attention=20)


def test_the_macs_of_a_resnet_18_are_the_published_ones() -> None:
    # 1.81 G: the stem, the first stage, three other stages that cost the same, the head.
    assert CASES[-1].macs == 118_013_952 + 462_422_016 + 3 * 411_041_792 + 512_000 == 1_814_073_344


@pytest.mark.parametrize("case", CASES[:-1], ids=lambda case: case.name)
def test_ours_equals_the_count_by_hand(case: Case) -> None:
    assert count_ours(case.make().eval(), torch.randn(case.shape)) == case.macs


@pytest.mark.slow
def test_ours_equals_the_count_by_hand_of_a_resnet_18() -> None:
    model, x = CASES[-1].make().eval(), torch.randn(CASES[-1].shape)
    assert 2 * count_ours(model, x) == count_torch(model, x) == 2 * CASES[-1].macs


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        (100, "one per MAC, attention included"),
        (200, "two per MAC, attention included"),
        (80, "one per MAC, attention omitted"),
        (160, "two per MAC, attention omitted"),
        (85, "one per MAC, attention omitted, 5 more for biases, activations, norms or pools"),
        (0, "nothing: the operations inside the layer are not seen"),
        (2 * 33, "parameters x batch: the length of sequences is ignored, attention omitted"),
    ],
)
def test_reasons(counted: int, said: str) -> None:
    assert why(counted, ATTENTION, nn.Linear(32, 1)) == said


@pytest.mark.slow
def test_every_counter_that_is_installed_has_a_row() -> None:
    rows = [result.what for result in compare_counters(CASES[:1])]
    assert rows[0] == "plain MLP: ours counts 40,320"
    assert "plain MLP: torch's FlopCounterMode counts 80,640" in rows
