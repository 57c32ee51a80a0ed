"""Convolutions with line buffers, branches with queues: equal to the program, with the timing that is promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hardware_samples import SmallCNN, program_of, quantized, with_random_norms
from test_mixed_widths import mixed
from test_simulation import needs_icarus, needs_verilator, simulate_all, simulation, vectors_for
from torch import Tensor, nn

from chop.config import DesignOptions
from chop.formats.mixed_integer import MixedInteger
from chop.hardware.emit import manifest, write_rtl
from chop.hardware.prepare import prepare
from chop.hardware.program import Program
from chop.hardware.resolve.layers import set_formats
from chop.hardware.rtl.design import make_design
from chop.hardware.simulators import SIMULATORS, Verilator
from samples import first_quick

STREAMED = DesignOptions(strategy={"default": "stream_conv"})


def program_for(model: nn.Module, *shape: int) -> Program:
    """Return the program of a model with random weights for inputs of a shape."""
    torch.manual_seed(0)
    model = model if list(model.children()) else nn.Sequential(model)
    return program_of(quantized(with_random_norms(model), torch.randn(20, *shape) * 2))[1]


class Residual(nn.Module):
    """A skip connection around a layer."""

    def __init__(self, before: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.before, self.layer = before, layer

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        return y + self.layer(y)  # type: ignore[no-any-return]


CONVOLUTIONS = [
    (nn.Conv2d(2, 3, 3), (2, 5, 6)),
    (nn.Conv2d(1, 2, 3, padding=1), (1, 4, 5)),
    (nn.Conv2d(2, 2, (2, 3), stride=(2, 1), padding=(1, 0)), (2, 5, 5)),
    (nn.Conv2d(1, 2, 3, stride=3, padding=1), (1, 7, 8)),
    (nn.Conv2d(4, 4, 3, groups=4, padding=2, stride=2), (4, 5, 4)),
    (nn.Conv2d(4, 6, 2, groups=2), (4, 3, 4)),
    (nn.Conv2d(1, 2, 2, dilation=(3, 2), padding=1), (1, 5, 6)),
    (nn.Conv2d(3, 2, 1), (3, 3, 2)),
    (nn.Conv2d(1, 2, 3, padding=1), (1, 1, 4)),
    (nn.Conv1d(2, 3, 3, padding=1, stride=2), (2, 9)),
    (nn.Sequential(nn.Conv2d(1, 2, 2), nn.MaxPool2d(3, stride=2, padding=1)), (1, 6, 7)),
    (nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.AvgPool2d(2)), (1, 7, 7)),
    (nn.Sequential(nn.Conv2d(1, 2, 2), nn.AdaptiveAvgPool2d(1)), (1, 4, 4)),
    (nn.Sequential(nn.BatchNorm2d(2), nn.ReLU(), nn.Tanh(), nn.Conv2d(2, 2, 2), nn.Flatten()), (2, 4, 3)),
]


@needs_icarus
@pytest.mark.parametrize(
    ("model", "shape"), first_quick(CONVOLUTIONS), ids=lambda value: str(value).replace("\n", "")
)
def test_streamed_layers_equal_the_program(model: nn.Module, shape: tuple[int, ...], tmp_path: Path) -> None:
    design = make_design(program_for(model, *shape), STREAMED)
    assert any(each.is_by_pixel for each in design.units)
    simulate_all(design, tmp_path, 12)


@needs_icarus
def test_an_axi_stream_marks_the_last_pixel_of_an_image(tmp_path: Path) -> None:
    design = make_design(program_for(nn.Conv2d(2, 3, 3, padding=1), 2, 4, 5), STREAMED)
    assert design.output_stream.beats == 20
    simulate_all(design, tmp_path, 12, axi_stream=True)


@pytest.mark.slow
@needs_icarus
@pytest.mark.parametrize("strategy", [
    {"default": "stream_conv"},
    {"first_0": "stream_conv"},
    {"second": "stream_conv", "first_0": "unrolled"},
    {"default": "stream_conv", "last": "folded"},
], ids=str)  # fmt: skip
def test_strategies_are_mixed_in_one_cnn(strategy: Any, tmp_path: Path) -> None:
    program = program_for(SmallCNN(nn.MaxPool2d(2)), 1, 5, 5)
    simulate_all(make_design(program, DesignOptions(strategy=strategy)), tmp_path, 8)


@needs_icarus
@pytest.mark.slow
def test_a_window_that_is_too_large_for_constants_shares_multipliers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chop.hardware.rtl.planned.MAX_UNROLLED", 30)
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2, stride=2))
    design = make_design(program_for(model, 2, 6, 4), DesignOptions(p_in=3, p_out=2))
    assert [each.strategy for each in design.units] == ["stream_conv"] * 3
    assert [each.folded is not None for each in design.units] == [True, False, True]
    simulate_all(design, tmp_path, 6)


@pytest.mark.slow
def test_large_convolutions_are_streamed_by_default() -> None:
    small = program_for(nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.Flatten(), nn.Linear(36, 4)), 1, 8, 8)
    assert {each.strategy for each in make_design(small, DesignOptions()).units} == {"unrolled"}
    large = program_for(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)), 1, 10, 10)
    design = make_design(large, DesignOptions())
    assert [each.strategy for each in design.units] == ["stream_conv", "stream_conv"]
    described = manifest(design, dict(design.files))
    assert described["input"] == {
        "shape": [1, 10, 10], "lanes": 1, "width": 8, "frac": 4, "signed": True, "beats": 100,
    }  # fmt: skip
    assert described["output"]["beats"] == 36
    assert described["interval"] == 100


def test_steps_of_a_line_buffer_are_the_image_and_the_padding_to_the_right_and_below() -> None:
    design = make_design(program_for(nn.Conv2d(1, 1, 3, padding=1), 1, 8, 8), STREAMED)
    (timing,) = design.timings().values()
    assert (timing.start, timing.interval) == (0, 81)
    assert design.interval == 81
    # The last window is complete after 81 steps and leaves one cycle later, then come the stages of the sums.
    assert design.latency == 81 + design.units[0].latency


def test_a_chain_of_folded_layers_is_as_fast_as_the_slowest_of_them() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3), nn.Linear(3, 2), nn.Linear(2, 4))
    options = DesignOptions(strategy={"default": "folded"}, p_in=3, p_out=1)
    design = make_design(program_for(model, 2), options)
    assert [each.interval for each in design.units] == [8, 9, 8, 10]  # steps, five stages, and one to take a vector
    assert design.interval == 10


RESIDUALS = [
    (Residual(nn.Linear(4, 4), nn.Linear(4, 4)), (4,), {"layer": "folded"}),
    (Residual(nn.Identity(), nn.Linear(4, 4)), (4,), {"layer": "folded"}),
    (Residual(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 3, padding=1)), (2, 4, 5), {"default": "stream_conv"}),
    (
        Residual(nn.Conv2d(1, 2, 3), nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1))),
        (1, 6, 6),
        {"default": "stream_conv"},
    ),
    (Residual(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 3, padding=1)), (2, 3, 3), {"layer": "stream_conv"}),
]


@needs_icarus
@pytest.mark.parametrize(("model", "shape", "strategy"), first_quick(RESIDUALS), ids=range(len(RESIDUALS)))
def test_branches_wait_in_queues(model: nn.Module, shape: tuple[int, ...], strategy: Any, tmp_path: Path) -> None:
    design = make_design(program_for(model, *shape), DesignOptions(strategy=strategy))
    assert "stream_fifo.sv" in design.files
    simulate_all(design, tmp_path, 10)


@needs_icarus
def test_a_wrong_weight_of_a_streamed_convolution_is_found_with_its_node(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 2, 2))
    program = program_for(model, 1, 6, 6)
    with torch.no_grad():
        next(model[3].parameters())[0, 0, 0, 0] += 0.25
    other = program_of(quantized(model, torch.randn(20, 1, 6, 6)))[1]
    design = make_design(other, STREAMED)
    wrong = simulation(type(design)(design.options, program, design.units, design.network, design.files), tmp_path)
    result = wrong.compare(vectors_for(program, 10))
    assert result.mismatch is not None
    assert result.mismatch.node == "_3"


@pytest.mark.slow
@needs_verilator
def test_streamed_circuits_are_clean_for_verilator(tmp_path: Path) -> None:
    verilator = SIMULATORS["verilator"]
    assert isinstance(verilator, Verilator)
    cases: list[tuple[nn.Module, tuple[int, ...]]] = [
        (SmallCNN(nn.MaxPool2d(2)), (1, 5, 5)),
        (Residual(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 3, padding=1)), (2, 3, 3)),
        (nn.Conv2d(1, 2, (1, 2), dilation=2), (1, 1, 6)),
        (nn.Conv2d(1, 2, 3, padding=1), (1, 1, 4)),
    ]
    for number, (model, shape) in enumerate(cases):
        folder = tmp_path / str(number)
        files = write_rtl(make_design(program_for(model, *shape), STREAMED), folder, axi_stream=True)
        for top in ("network", "network_axis"):
            used = [path for path in files if path.suffix == ".sv" and ("axis" in top or "axis" not in path.name)]
            assert verilator.lint(used, top, folder) == ""


@needs_icarus
@pytest.mark.slow
def test_channels_of_different_widths_are_streamed(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 2))
    program = prepare(mixed(model, torch.randn(10, 2, 5, 4), seed=1, per_channel=True)).program
    simulate_all(make_design(program, STREAMED), tmp_path, 10)


@needs_icarus
@pytest.mark.slow
def test_elements_of_different_widths_are_unrolled_position_by_position(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Conv2d(2, 2, 2))
    graph = mixed(model, torch.randn(10, 1, 4, 4), seed=2, per_channel=True)
    last = [meta for meta in graph.annotated_metas() if meta.mase_op == "conv2d"][-1]
    assert last.quantized is not None
    widths = torch.randint(1, 5, (2, 3, 3), generator=torch.Generator().manual_seed(3))
    own = MixedInteger.of(widths, torch.ones_like(widths), is_signed=False)
    set_formats(last, {**last.quantized.formats, "data_in_0": own})
    program = prepare(graph).program
    design = make_design(program, DesignOptions())
    assert not any("_0_block" in name for name in design.files)
    simulate_all(design, tmp_path, 10)
    with pytest.raises(ValueError, match="a channel are rounded or saturated in different ways"):
        make_design(program, DesignOptions(strategy={"_0": "stream_conv"}))
