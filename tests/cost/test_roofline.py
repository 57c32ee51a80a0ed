"""Bits moved, intensity and time on a device, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.cost import Device, Energy, arithmetic_intensity, energy, estimate_time, in_formats, moved_bits
from chop.cost.roofline import operand_width
from chop.formats.block_fp import BlockFP
from chop.formats.integer import Integer
from chop.ir import NodeMeta
from chop.options import read_options
from samples import annotated


def linear(**formats: Any) -> NodeMeta:
    """60 MACs; 12 numbers in, 20 weights, 5 biases, 15 numbers out."""
    meta = annotated(nn.Sequential(nn.Linear(4, 5)), input=torch.randn(3, 4)).annotated_metas()[1]
    return in_formats(meta, formats)


def test_operands_parameters_and_results_are_moved() -> None:
    assert moved_bits(linear()) == 52 * 32
    eight = Integer(8, 4)
    assert (
        moved_bits(linear(data_in_0=eight, weight=Integer(4, 2), data_out_0=eight))
        == 12 * 8 + 20 * 4 + 5 * 32 + 15 * 8
    )


def test_weights_of_functions_are_moved_once() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, 4))

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.linear(x, self.weight).flatten()

    metas = annotated(Functional(), x=torch.randn(3, 4)).annotated_metas()
    moved = {meta.node.name: moved_bits(meta) for meta in metas}
    assert moved == {"x": 0, "weight": 0, "linear": (12 + 20 + 15) * 32, "flatten": 0, "output": 0}


def test_intensity_is_operations_per_byte() -> None:
    assert arithmetic_intensity(linear()) == 120 / (52 * 4)
    placeholder = annotated(nn.ReLU(), input=torch.randn(3)).annotated_metas()[0]
    assert arithmetic_intensity(placeholder) is None


def test_time_is_the_larger_of_computing_and_moving() -> None:
    # 120 operations and 208 bytes.
    assert estimate_time(linear(), Device("slow", {32: 60.0}, 1e6)) == (2.0, "compute")
    assert estimate_time(linear(), Device("far", {32: 1e6}, 104.0)) == (2.0, "memory")


def test_a_width_uses_the_next_larger_peak() -> None:
    device = Device("npu", {"8": 120.0, "32": 60.0}, 1e9)

    def seconds(width: int) -> float:
        fixed = Integer(width, 2)
        found = estimate_time(linear(data_in_0=fixed, weight=fixed), device)
        assert found is not None
        return found.seconds

    assert [seconds(width) for width in (2, 8, 9, 32)] == [1.0, 1.0, 2.0, 2.0]
    in_blocks = BlockFP(width=8, exponent_width=8, block_size=16)  # 8.5 bits of memory, but products of 8
    assert operand_width(linear(data_in_0=in_blocks, weight=Integer(4, 2))) == 8


def test_operands_that_are_too_wide_are_reported_with_the_node() -> None:
    with pytest.raises(
        ValueError, match="node '_0': device 'npu' lists peaks up to 16 bits only, but operands have 32"
    ):
        estimate_time(linear(), Device("npu", {8: 2.0, 16: 1.0}, 1.0))


def test_no_work_takes_no_time_and_unknown_is_none() -> None:
    class Unknown(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sinc(x)

    metas = annotated(Unknown(), x=torch.randn(3)).annotated_metas()
    device = Device("any", {32: 1.0}, 1.0)
    assert [estimate_time(meta, device) for meta in metas] == [(0.0, None), None, (0.0, None)]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"name": "a", "peak": {"8": 1.0}}, "'bandwidth' is required"),
        ({"name": "a", "peak": {}, "bandwidth": 1.0}, "peak must list at least one width"),
        (
            {"name": "a", "peak": {"int8": 1.0}, "bandwidth": 1.0},
            "peak must have widths in bits as keys, such as 8, got 'int8'",
        ),
        ({"name": "a", "peak": {"8": 0.0}, "bandwidth": 1.0}, "peak must be positive numbers, got 0.0 for 8 bits"),
        ({"name": "a", "peak": {"8": 1.0}, "bandwidth": -1}, "bandwidth must be a positive number of bytes"),
        ({"name": "a", "peak": {"8": 1.0}, "bandwith": 1.0}, "unknown key 'bandwith'; did you mean 'bandwidth'"),
    ],
)
def test_errors_in_a_device_are_reported(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_options(Device, table, "device")


def test_only_rows_of_an_embedding_that_are_looked_up_are_moved() -> None:
    """Three rows of four out of a hundred, from the table and to the result; indices have 64 bits."""
    embedding = annotated(nn.Sequential(nn.Embedding(100, 4)), input=torch.tensor([1, 2, 3])).annotated_metas()[1]
    assert moved_bits(embedding) == 3 * 64 + 12 * 32 + 12 * 32
    eight = in_formats(embedding, {"weight": Integer(8, 4)})
    assert moved_bits(eight) == 3 * 64 + 12 * 8 + 12 * 32
    table = Energy(memory={"near": 1.0, "far": 10.0}, weights="far", activations="near")
    assert energy(embedding, table) == 12 * 32 * 10 + 3 * 64 + 12 * 32
    small = annotated(nn.Sequential(nn.Embedding(2, 4)), input=torch.tensor([0, 1, 1])).annotated_metas()[1]
    assert moved_bits(small) == 3 * 64 + 8 * 32 + 12 * 32  # a row that is looked up twice is there already
    traced_through = annotated(nn.Embedding(100, 4), input=torch.tensor([1, 2, 3]))
    function = traced_through.annotated_metas()[-2]
    assert (function.mase_op, function.node.op) == ("embedding", "call_function")
    assert moved_bits(function) == moved_bits(embedding)
    assert energy(function, table) == energy(embedding, table)
