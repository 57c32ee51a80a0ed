"""Threads are used only for models that benefit from them."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

from chop.training.threads import MIN_PARALLEL_WORK, limit_threads, multiplications_per_row


@pytest.fixture(autouse=True)
def _several(monkeypatch: pytest.MonkeyPatch, one_thread_and_no_drawing: None) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(3)


def test_small_models_use_one_thread_temporarily() -> None:
    with limit_threads(MIN_PARALLEL_WORK - 1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with limit_threads(MIN_PARALLEL_WORK):
        assert torch.get_num_threads() == 3


def test_the_environment_variable_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with limit_threads(1):
        assert torch.get_num_threads() == 3


def test_multiplications_worked_out_by_hand() -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 3 * 3, 5))
    # 4 x 3 x 3 outputs of 2 x 3 x 3 weights each, and 5 outputs of 36 weights each
    assert multiplications_per_row(model.eval(), torch.zeros(2, 2, 5, 5)) == 36 * 18 + 5 * 36
    assert all(not layer._forward_hooks for layer in model.modules())


def test_counting_stops_when_there_are_enough_multiplications(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 100), nn.Linear(4, 3))  # the last one does not fit
    rows = torch.zeros(2, 4)
    assert multiplications_per_row(model, rows, enough=12) == 12
    assert multiplications_per_row(fx.symbolic_trace(model), rows, enough=300) == 12 + 300
    assert model.training
    assert all(not layer._forward_hooks for layer in model.modules())
    assert capsys.readouterr().err == ""
