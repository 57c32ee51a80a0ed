"""The long simulations of `make test-hardware`: 1,000 vectors with bubbles, stalls and a reset, in Verilator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hardware_samples import program_of, quantized
from test_simulation import jet_program, needs_verilator, simulate_all
from torch import Tensor, nn

from chop.config import DesignOptions, Strategy
from chop.dataset.digits import Digits
from chop.hardware.program import Program
from chop.hardware.rtl.design import make_design

pytestmark = [
    needs_verilator,
    pytest.mark.slow,
    pytest.mark.skipif("CHOP_TEST_HARDWARE" not in os.environ, reason="only with `make test-hardware`"),
]


def trained(model: nn.Module, features: Tensor, labels: Tensor) -> Program:
    """Return the program of a model that was trained for a few steps."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
    return program_of(quantized(model, features[:64]))[1]


def digits_program() -> Program:
    """Return the program of a small CNN on the digits, 8 x 8."""
    torch.manual_seed(0)
    rows = Digits().load().train
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 10)
    )
    return trained(model, rows.features[:512], rows.labels[:512])


def enlarged_digits_program(size: int) -> Program:
    """Return the program of a CNN with two blocks on digits that are enlarged to `size` x `size`."""
    torch.manual_seed(0)
    rows = Digits().load().train
    features = nn.functional.interpolate(rows.features[:256], (size, size))
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * (size // 4) ** 2, 10),
    )  # fmt: skip
    return trained(model, features, rows.labels[:256])


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


@pytest.mark.parametrize("strategy", ["unrolled", "stream_conv"])
def test_a_small_cnn_on_digits_with_1000_vectors(strategy: Strategy, tmp_path: Path) -> None:
    design = make_design(digits_program(), DesignOptions(strategy={"default": strategy}))
    simulate_all(design, tmp_path, 1000, "verilator")


@pytest.mark.parametrize("size", [16, 28])
def test_larger_cnns_are_streamed_by_default(size: int, tmp_path: Path) -> None:
    design = make_design(enlarged_digits_program(size), DesignOptions())
    assert [each.strategy for each in design.units if not each.unit.is_wiring][:4] == ["stream_conv"] * 4
    simulate_all(design, tmp_path, 1000 if size == 16 else 300, "verilator")
