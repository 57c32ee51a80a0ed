"""Results that are the same for every input are part of what reads them, in every strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fuzz.readers import check_readable, slang_errors
from hardware_samples import num_differences, program_of, quantized
from test_simulation import SIMULATOR, needs_simulator, simulate_all
from torch import Tensor, nn

from chop.config import DesignOptions
from chop.hardware.emit import write_rtl
from chop.hardware.program.instructions import Instruction
from chop.hardware.program.program import without_constants
from chop.hardware.rtl.design import make_design
from chop.ir import MaseGraph


class Branches(nn.Module):
    """What a layer computes, together with what comes from a branch whose weights are all 0."""

    def __init__(self, kept: nn.Module, *dead: nn.Module, bias: float = 0.0, join: str = "add") -> None:
        super().__init__()
        self.kept, self.dead, self.join = kept, nn.Sequential(*dead), join
        for layer in self.dead:
            for name, parameter in layer.named_parameters():
                nn.init.constant_(parameter, bias if name == "bias" else 0.0)

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.kept(x), self.dead(x)
        return first + second if self.join == "add" else torch.cat([first, second, first], dim=1)


NETWORKS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "a dead branch": (Branches(nn.Linear(3, 4), nn.Linear(3, 4)), (3,)),
    "a folded layer after a dead one": (Branches(nn.Linear(3, 4), nn.Linear(3, 5), nn.Linear(5, 4)), (3,)),
    "a constant branch": (Branches(nn.Linear(3, 4), nn.Linear(3, 5), nn.Linear(5, 4), bias=-1.5), (3,)),
    "a constant among others": (Branches(nn.Linear(3, 4), nn.Linear(3, 2), bias=2, join="cat"), (3,)),
    "a zero among others": (Branches(nn.Linear(3, 4), nn.Linear(3, 2), nn.ReLU(), join="cat"), (3,)),
    "a dead branch of images": (Branches(nn.Conv2d(1, 2, 2), nn.Conv2d(1, 2, 2)), (1, 3, 4)),
    "a constant branch of images": (Branches(nn.Conv2d(1, 2, 2), nn.Conv2d(1, 2, 2), bias=-2), (1, 3, 4)),
    "constant channels": (Branches(nn.Conv2d(1, 2, 2), nn.Conv2d(1, 1, 2), bias=1, join="cat"), (1, 3, 4)),
    "zeros before a convolution": (
        nn.Sequential(Branches(nn.Conv1d(1, 2, 1), nn.Conv1d(1, 2, 1), join="cat"), nn.Conv1d(6, 3, 3, 1, 1, 1, 3)),
        (1, 4),
    ),
}  # fmt: skip


def graph_of(model: nn.Module, shape: tuple[int, ...]) -> MaseGraph:
    return quantized(model, torch.randn(16, *shape) * 2)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_program_without_constants_computes_the_same(name: str) -> None:
    model, shape = NETWORKS[name]
    graph, program = program_of(graph_of(model, shape))
    x = torch.randn(50, *shape) * 4
    assert num_differences(graph, program, x) == 0
    shorter = without_constants(program)
    assert num_differences(graph, shorter, x) == 0

    def varies(instruction: Instruction) -> bool:
        return bool((instruction.out.low < instruction.out.high).any())

    assert all(varies(each) for each in shorter)
    assert not all(varies(each) for each in program)
    read = {name for each in shorter for name in each.reads} | {shorter.result}
    assert read == set(shorter.instructions)


@needs_simulator
@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["unrolled", "folded", "stream_conv"])
@pytest.mark.parametrize("name", NETWORKS)
def test_circuits_without_constants_are_read_by_every_tool_and_compute_the_same(
    name: str, strategy: Any, tmp_path: Path
) -> None:
    if SIMULATOR == "verilator" and strategy != "stream_conv":
        pytest.skip("takes seconds without Icarus Verilog")
    model, shape = NETWORKS[name]
    design = make_design(program_of(graph_of(model, shape))[1], DesignOptions(strategy={"default": strategy}))
    check_readable(write_rtl(design, tmp_path, axi_stream=True), "network_axis", tmp_path)
    simulate_all(design, tmp_path, 12, SIMULATOR)


@pytest.mark.parametrize("bias", [0.5, 0.0])
def test_a_network_whose_result_never_changes_is_a_register(bias: float, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    nn.init.zeros_(model[0].weight)  # type: ignore[arg-type]
    nn.init.constant_(model[0].bias, bias)  # type: ignore[arg-type]
    nn.init.constant_(model[2].bias, bias)  # type: ignore[arg-type]
    graph, program = program_of(graph_of(model, (3,)))
    x = torch.randn(20, 3)
    assert num_differences(graph, without_constants(program), x) == 0
    design = make_design(program, DesignOptions(strategy={"default": "folded"}))
    assert design.latency == 1
    assert slang_errors(write_rtl(design, tmp_path)) == ""
