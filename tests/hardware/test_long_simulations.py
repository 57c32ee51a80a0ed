"""The long simulations of `make test-hardware`: 1,000 vectors with bubbles, stalls and a reset, in Verilator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hardware_samples import program_of, quantized
from test_simulation import jet_program, needs_verilator, simulate_all
from torch import nn

from chop.dataset.digits import Digits
from chop.hardware.program import Program
from chop.hardware.rtl.design import DesignOptions, make_design

pytestmark = [
    needs_verilator,
    pytest.mark.slow,
    pytest.mark.skipif("CHOP_TEST_HARDWARE" not in os.environ, reason="only with `make test-hardware`"),
]


def digits_program() -> Program:
    """Return the program of a small CNN that was trained for a few steps on the digits."""
    torch.manual_seed(0)
    rows = Digits().load().train
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows.features[:512]), rows.labels[:512]).backward()
        optimizer.step()
    return program_of(quantized(model, rows.features[:64]))[1]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jsc-tiny", DesignOptions()),
        ("jsc-toy", DesignOptions()),
        ("jsc-mlp", DesignOptions(strategy={"default": "folded"})),
    ],
    ids=["jsc-tiny", "jsc-toy", "16-64-32-32-5 folded"],
)
def test_jet_taggers_with_1000_vectors(name: str, options: DesignOptions, tmp_path: Path) -> None:
    simulate_all(make_design(jet_program(name), options), tmp_path, 1000, "verilator")


def test_a_small_cnn_on_digits_with_1000_vectors(tmp_path: Path) -> None:
    simulate_all(make_design(digits_program(), DesignOptions()), tmp_path, 1000, "verilator")
