"""The integer program: it computes what fake quantisation computes, bit for bit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hardware_samples import (
    EVERYTHING,
    SmallCNN,
    in_formats,
    num_differences,
    program_of,
    quantized,
    with_random_norms,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from chop.formats.integer import Integer
from chop.hardware.program import lower
from chop.hardware.program.instructions import LookUp
from chop.hardware.program.signal import width_of
from chop.hardware.resolve.layers import set_formats
from chop.models import get_model
from samples import LAB_CONFIG, LAB_PASS_ARGS

ROUNDINGS = ("nearest_even", "nearest_away", "floor", "towards_zero")


class JetInfo:
    num_features, num_classes, feature_shape = 16, 5, (16,)


def test_a_linear_layer_worked_out_by_hand() -> None:
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.5, -0.25]]))  # 24 and -4 in sixteenths
        layer.bias.fill_(0.3)  # 0.3125: 5 sixteenths, or 80 of the accumulator's 256ths
    _, program = program_of(quantized(nn.Sequential(layer), torch.zeros(1, 2)))
    integers = program.quantize(np.array([[1.0, 2.0], [-9.0, 0.03125]]))
    assert integers.tolist() == [[16, 32], [-128, 0]]  # -9 saturates; half of a sixteenth rounds to even
    assert program.run(integers).tolist() == [[24 * 16 - 4 * 32 + 80], [-128 * 24 + 80]]
    assert program.output.out.frac.tolist() == [8]


def fits(low: int, high: int, width: int, signed: bool) -> bool:
    first, count = -signed * (1 << width - 1), 1 << width
    return first <= low and high < first + count


@pytest.mark.parametrize("signed", [True, False])
def test_a_width_is_the_smallest_that_holds_both_bounds(signed: bool) -> None:
    powers = {sign * 2**k + d for k in range(7) for sign in (1, -1) for d in (-1, 0, 1)}
    for low, high in itertools.product(sorted(powers), repeat=2):
        if low > high or (low == high == 0) or (low < 0 and not signed):
            continue
        widths = [width for width in range(1, 10) if fits(low, high, width, signed)]
        assert width_of(low, high, signed) == widths[0], (low, high)
    assert width_of(-2, -2) == width_of(-2, 1) == 2


@pytest.mark.parametrize("config", [LAB_PASS_ARGS, EVERYTHING], ids=["linear", "everything"])
@pytest.mark.parametrize("name", ["jsc-tiny", "jsc-toy", "jsc-mlp", "jsc-s"])
def test_jet_taggers_equal_fake_quantisation(name: str, config: dict[str, Any]) -> None:
    x = torch.randn(400, 16) * 3
    graph, program = program_of(quantized(with_random_norms(get_model(name, "cls", JetInfo())), x, config))
    assert num_differences(graph, program, x) == 0
    assert program.beyond_float32 == ()


@pytest.mark.parametrize("pool", [nn.AvgPool2d(3), nn.AdaptiveAvgPool2d(1), nn.MaxPool2d(3)], ids=str)
def test_a_cnn_with_every_kind_of_node_equals_fake_quantisation(pool: nn.Module) -> None:
    x = torch.randn(20, 1, 8, 8) * 2
    graph, program = program_of(quantized(with_random_norms(SmallCNN(pool)), x))
    assert num_differences(graph, program, x) == 0
    assert any(isinstance(each, LookUp) for each in program)


@pytest.mark.parametrize("channels", [1, 2])
def test_a_kernel_of_one_pixel_reads_zeros_in_its_padding(channels: int) -> None:
    x = torch.randn(20, channels, 2, 3) * 2
    layer = nn.Conv2d(channels, 1, 1, padding=1)
    nn.init.ones_(layer.weight)
    graph, program = program_of(quantized(nn.Sequential(layer), x))
    assert num_differences(graph, program, x) == 0


def test_a_maximum_of_nothing_but_padding_is_refused() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.MaxPool2d(2, padding=1, dilation=2))
    x = torch.randn(4, 1, 1, 1)
    assert model(x).isinf().all()
    with pytest.raises(ValueError, match="node '_1': a window with nothing but padding has no maximum"):
        program_of(quantized(model, x))


class Expression(nn.Module):
    """A layer, and a function of its results and the input."""

    def __init__(self, function: Callable[[nn.Module, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function, self.shift = nn.Linear(4, 4), function, nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, self.layer(x), x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda m, y, x: y + m.shift, "node 'add': hardware supports no constant as 'data_in_1', got 'shift'"),
        (lambda m, y, x: y + 1.5, "node 'add': hardware supports no constant as 'data_in_1', got '1.5'"),
        (lambda m, y, x: m.shift.relu() + y, "node 'relu': hardware supports no constant as 'data_in_0', got"),
        (lambda m, y, x: torch.add(y, x, alpha=2), "node 'add': hardware adds tensors without a factor 'alpha'"),
        (lambda m, y, x: torch.cat([y, x]), "node 'cat' moves elements from one row to another; hardware"),
        (lambda m, y, x: y.flatten(), "node 'flatten' moves elements from one row to another; hardware"),
        (lambda m, y, x: y.transpose(0, 1), "node 'transpose' moves elements from one row to another; hardware"),
    ],
    ids=["parameter", "number", "function of a parameter", "alpha", "cat of rows", "flat rows", "transposed rows"],
)
def test_what_hardware_cannot_compute_is_refused_with_its_node(function: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        program_of(quantized(Expression(function), torch.randn(4, 4)))


def test_a_result_that_is_joined_with_itself_is_read_in_the_format_of_each_operand() -> None:
    x = torch.randn(50, 4) * 4
    graph = quantized(Expression(lambda m, y, x: torch.cat([y, y], dim=1)), x)
    (cat,) = (meta for meta in graph.annotated_metas() if meta.mase_op == "cat")
    set_formats(cat, {"data_in_0": Integer(8, 6), "data_in_1": Integer(3, 0)})
    graph, program = program_of(graph)
    assert num_differences(graph, program, x) == 0


def test_a_function_reads_elements_with_different_fraction_bits() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))  # type: ignore[operator]
        model[0].bias.copy_(torch.tensor([0.0, 0.5]))  # type: ignore[operator]
    x = torch.randn(50, 2) * 4
    weights = {"weight": Integer(3, 0), "bias": Integer(4, 1)}
    graph = in_formats(model, x, {"data_in_0": Integer(4, 0), **weights})
    (tanh,) = (meta for meta in graph.annotated_metas() if meta.mase_op == "tanh")
    set_formats(tanh, {"data_in_0": Integer(8, 2), "data_out_0": Integer(8, 6)})
    graph, program = program_of(graph)
    assert program["_0"].out.frac.tolist() == [0, 1]
    assert num_differences(graph, program, x) == 0


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """A config with random widths, fraction bits and rounding for each role."""
    config: dict[str, Any] = {"name": "integer"}
    for role in ("data_in", "weight", "bias"):
        width = draw(st.integers(1, 9))
        config |= {
            f"{role}_width": width,
            f"{role}_frac_width": draw(st.integers(-2, width + 2)),
            f"{role}_rounding": draw(st.sampled_from(ROUNDINGS)),
            f"{role}_is_signed": draw(st.booleans()),
        }
    return config


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 7), min_size=2, max_size=4),
    config=configs(),
    other=configs(),
    zeros=st.floats(0, 1),
    seed=st.integers(0, 2**16),
)
def test_random_networks_equal_fake_quantisation(
    sizes: list[int], config: dict[str, Any], other: dict[str, Any], zeros: float, seed: int
) -> None:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [
            nn.Linear(before, after, bias=bool(seed % 2)),
            nn.ReLU(inplace=bool(seed % 3)),
            nn.BatchNorm1d(after),
        ]
    model = with_random_norms(nn.Sequential(*layers))
    for layer in layers:
        if isinstance(layer, nn.Linear):
            layer.weight.data *= torch.rand_like(layer.weight) >= zeros
    x = torch.randn(64, sizes[0]) * 4
    kinds = {"linear": {"config": config}, "batch_norm1d": {"config": other}, "relu": {"config": other}}
    graph, program = program_of(quantized(model, x, {"by": "type", "default": {"config": {"name": None}}, **kinds}))
    assert num_differences(graph, program, x) == 0


@pytest.mark.slow
@given(
    channels=st.integers(1, 3),
    size=st.tuples(st.integers(7, 9), st.integers(7, 9)),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    config=configs(),
    seed=st.integers(0, 2**16),
)
def test_random_convolutions_equal_fake_quantisation(
    channels: int,
    size: tuple[int, int],
    stride: int,
    padding: int,
    dilation: int,
    config: dict[str, Any],
    seed: int,
) -> None:
    torch.manual_seed(seed)
    conv = nn.Conv2d(channels, 2 * channels, (3, 2), stride, padding, dilation, groups=channels if seed % 2 else 1)
    model = nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2, 1, seed % 2))
    x = torch.randn(6, channels, *size) * 4
    graph, program = program_of(quantized(model, x, {"by": "type", "default": {"config": config}}))
    assert num_differences(graph, program, x) == 0


@pytest.mark.slow
def test_weights_with_a_power_of_two_per_channel_and_of_one_and_two_bits() -> None:
    x = torch.randn(200, 8) * 3
    for weight in (
        {"weight_granularity": "channel"},
        {"weight_name": "binary", "weight_scaling": False},
        {"weight_name": "ternary", "weight_scaling": False},
        {"weight_name": "binary"},
        {"weight_name": "ternary"},
    ):
        model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
        config = {key: value for key, value in LAB_CONFIG.items() if not key.startswith("weight_")} | weight
        graph, program = program_of(quantized(model, x, {"by": "type", "default": {"config": config}}))
        assert num_differences(graph, program, x) == 0


def test_a_network_beyond_the_mantissa_of_float32_is_flagged_and_equals_float64() -> None:
    config = {
        **LAB_CONFIG,
        "data_in_width": 16,
        "weight_width": 16,
        "weight_frac_width": 14,
        "data_in_frac_width": 10,
    }
    x = torch.randn(100, 16) * 8
    model = nn.Sequential(nn.Linear(16, 4))
    graph, program = program_of(quantized(model, x, {"by": "type", "default": {"config": config}}))
    assert program.beyond_float32 == ("_0",)
    graph.model.double()
    assert num_differences(graph, program, x.double()) == 0


def test_accumulators_are_as_wide_as_their_bound_needs() -> None:
    layer = nn.Linear(4, 1)
    with torch.no_grad():
        layer.weight.fill_(1.0)  # 16 sixteenths
        layer.bias.fill_(-1.0)
    _, program = program_of(quantized(nn.Sequential(layer), torch.zeros(1, 4)))
    out = program.output.out
    assert (out.low.item(), out.high.item()) == (-4 * 128 * 16 - 256, 4 * 127 * 16 - 256)
    assert program.output.bound == 4 * 128 * 16 + 256
    assert out.width == 15  # -8448 needs 15 bits


def test_a_tensor_that_is_overwritten_and_read_later_is_refused() -> None:
    class Overwrites(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.relu = nn.Linear(3, 3), nn.ReLU(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            return self.relu(y) + y  # type: ignore[no-any-return]

    with pytest.raises(ValueError, match="node 'relu' overwrites a tensor that is read later; use inplace = False"):
        lower(quantized(Overwrites(), torch.zeros(1, 3)))


def test_a_table_holds_the_values_of_the_formats() -> None:
    config = {"name": "integer", "data_in_width": 4, "data_in_frac_width": 1}
    config |= {"data_out_width": 6, "data_out_frac_width": 4}
    model = nn.Sequential(nn.Tanh())
    _, program = program_of(quantized(model, torch.zeros(1, 3), {"by": "type", "default": {"config": config}}))
    table = next(each for each in program if isinstance(each, LookUp))
    # tanh(-4), ..., tanh(3.5) in sixteenths: tanh(0.5) = 0.4621 is 7.39 sixteenths
    assert table.table.tolist() == [-16, -16, -16, -16, -15, -14, -12, -7, 0, 7, 12, 14, 15, 16, 16, 16]


class Exponential(nn.Module):
    """Exponentials of rounded values, which a layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.limit, self.last = nn.Hardtanh(-2.0, 1.0), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.exp(self.limit(x)))  # type: ignore[no-any-return]


def test_exponentials_become_a_table_in_the_format_of_their_reader() -> None:
    x = torch.randn(100, 3) * 2
    config = {**LAB_CONFIG, "data_in_width": 6, "data_in_frac_width": 3}
    limit = {"config": {**config, "data_out_width": 5, "data_out_frac_width": 2}}
    graph, program = program_of(
        quantized(Exponential(), x, {"by": "name", "limit": limit, "last": {"config": config}})
    )
    table = next(each for each in program if isinstance(each, LookUp) and each.function == "exp")
    # exp(-2), exp(-1.75), ..., exp(1) in eighths: exp(0.25) = 1.2840 is 10.27 eighths
    assert table.table.tolist() == [1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22]
    assert num_differences(graph, program, x) == 0


@pytest.mark.parametrize(
    ("model", "config", "message"),
    [
        (
            nn.Linear(3, 2),
            {"name": "mxint"},
            r"node '_0': data_in_0: format mxint\(8, 32\) is not supported for data in hardware",
        ),
        (
            nn.Linear(3, 2),
            {**LAB_CONFIG, "data_in_rounding": "stochastic"},
            "rounding 'stochastic' cannot be repeated",
        ),
        (nn.Linear(3, 2), {**LAB_CONFIG, "weight_rounding": "stochastic"}, "rounds at random"),
        (nn.Linear(3, 2), {**LAB_CONFIG, "weight_scale": "float"}, "not a power of two, which hardware needs"),
        (nn.LayerNorm(3), LAB_CONFIG, "calls 'layer_norm', which hardware does not support; supported: linear"),
        (
            nn.Sequential(nn.Sigmoid()),
            LAB_CONFIG,
            "the result of 'sigmoid' has no format; give the node data_out_width",
        ),
        (
            nn.Sequential(nn.Tanh()),
            {"name": "integer", "data_in_width": 16},
            "a table of 'tanh' for 16 bits is too large",
        ),
    ],
    ids=["format", "stochastic", "stochastic weight", "float scale", "op", "no result format", "large table"],
)
def test_what_hardware_cannot_hold_is_refused_by_name(
    model: nn.Module, config: dict[str, Any], message: str
) -> None:
    graph = quantized(nn.Sequential(model), torch.zeros(1, 3), {"by": "type", "default": {"config": config}})
    with pytest.raises(ValueError, match=message):
        lower(graph)


@pytest.mark.slow
def test_the_emulator_is_fast() -> None:
    """One million rows of jsc-tiny take about a second: half of that speed is required, on a busy machine."""
    x = torch.randn(400, 16)
    _, program = program_of(quantized(with_random_norms(get_model("jsc-tiny", "cls", JetInfo())), x))
    rows = np.random.default_rng(0).integers(-128, 128, (200_000, 16))
    start = time.process_time()
    program.run(rows)
    assert len(rows) / (time.process_time() - start) > 200_000
