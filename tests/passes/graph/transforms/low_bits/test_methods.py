"""Rotation, equalisation, smoothing, clipping, learned rounding and bias correction."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.ir.graph.storage import load_graph, save_graph
from chop.nn.hadamard import Hadamard, rotation
from chop.nn.quantized import QuantizedLayer
from chop.passes import PASSES
from chop.passes.graph import (
    adaround_transform_pass,
    clip_transform_pass,
    correct_bias_transform_pass,
    equalize_transform_pass,
    gptq_transform_pass,
    quantize_transform_pass,
    rotate_transform_pass,
    smooth_transform_pass,
)
from chop.passes.graph.transforms.low_bits.layers import CalibrationArgs
from samples import annotated

FIXED = {
    "name": "integer",
    "data_in_name": "float",
    "bias_name": "float",
    "weight_width": 4,
    "weight_frac_width": 3,
}
PER_CHANNEL = {**FIXED, "weight_scale": "float", "weight_granularity": "channel"}
METHODS = [name for name, each in PASSES.items() if issubclass(each.args_class, CalibrationArgs)]
METHODS.remove("recover_accuracy")  # it runs the others, and has this test in test_recover_accuracy.py
"""All passes that change layers for the least error of an output."""


def quantized(model: nn.Module, x: Tensor, config: dict[str, Any], *ops: str) -> MaseGraph:
    arguments = {"by": "type", **{op: {"config": config} for op in ops or ("linear",)}}
    return quantize_transform_pass(annotated(model, input=x), arguments)[0]


def weight_of(model: MaseGraph | nn.Module, name: str = "0.weight") -> Tensor:
    module = model.model if isinstance(model, MaseGraph) else model
    return module.get_parameter(name).detach()


@pytest.mark.parametrize("size", [1, 2, 12, 20, 32, 36, 64, 384, 576, 1536, 28, 7, 6])
def test_rotations_are_orthogonal(size: int) -> None:
    matrix = rotation(size)
    torch.testing.assert_close(matrix @ matrix.t(), torch.eye(size, dtype=torch.float64))
    if size % 4 == 0:  # a Hadamard matrix: all elements have the same magnitude
        torch.testing.assert_close(matrix.abs(), torch.full_like(matrix, size**-0.5))


class Branches(nn.Module):
    """Two linear layers that read the same tensor, and one that reads the result of another linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 8)
        self.norm = nn.LayerNorm(32)
        self.drop = nn.Dropout()

    def forward(self, input: Tensor) -> Tensor:
        x = self.norm(input)
        y: Tensor = self.c(self.drop(self.a(x))) + self.b(x).sum(-1, keepdim=True)
        return y


def test_a_rotation_keeps_the_function_and_is_folded_between_linear_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Branches().eval(), torch.randn(5, 32)
    expected = model(x)
    graph, info = rotate_transform_pass(annotated(model, input=x))
    assert info == {"folded": {"a": ["c"]}, "online": {"norm_hadamard": ["a", "b"]}}
    graph.model.eval()
    torch.testing.assert_close(graph.model(x), expected)
    assert not graph.model.get_parameter("c.weight").allclose(model.c.weight)
    assert isinstance(graph.modules["norm_hadamard"], Hadamard)
    save_graph(graph, tmp_path)
    torch.testing.assert_close(load_graph(tmp_path).model.eval()(x), expected)
    _, info = rotate_transform_pass(annotated(model, input=x), {"online": False})
    assert info == {"folded": {"a": ["c"]}, "online": {}}


def test_a_rotation_makes_outliers_harmless() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 16)), torch.randn(100, 64)
    x[:, 3] *= 100
    expected = model(x).detach()
    config = {"name": "integer", "data_in_width": 6, "data_in_scale": "float", "weight_scale": "float"}
    errors = []
    for passes in ((), (rotate_transform_pass,)):
        graph = quantized(model, x, {**config, "bias_name": "float"})
        for run in passes:
            graph, _ = run(graph)
        errors.append(float((graph.model(x).detach() - expected).square().sum()))
    assert errors[1] < 0.3 * errors[0]


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)), (5, 8)),
        (
            nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=3), nn.Conv2d(6, 2, 1)),
            (2, 3, 9, 9),
        ),
    ],
)
def test_equalised_layers_have_the_same_ranges_and_compute_the_same(
    model: nn.Module, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape)
    with torch.no_grad():
        weight_of(model)[0] *= 50
    before = weight_of(model).abs().flatten(1).amax(1)
    graph, info = equalize_transform_pass(annotated(model, input=x))
    torch.testing.assert_close(graph.model(x), model(x), rtol=1e-4, atol=1e-4)
    assert info["pairs"]["_2"] == "_0"
    first, second = weight_of(graph), weight_of(graph, "2.weight")
    ranges = first.abs().flatten(1).amax(1)
    if second.dim() == 2:
        torch.testing.assert_close(second.abs().amax(0), ranges, rtol=0.02, atol=0)
        product = before * weight_of(model, "2.weight").abs().amax(0)
        torch.testing.assert_close(ranges, product.sqrt(), rtol=0.02, atol=0)
    assert ranges.max() / ranges.min() < before.max() / before.min() / 2


@pytest.mark.slow
def test_smoothing_keeps_the_function_and_reduces_the_error_of_outliers() -> None:
    torch.manual_seed(0)
    model = Branches().eval()
    with torch.no_grad():
        model.norm.weight[5] = 30.0
    x = torch.randn(200, 32)
    expected = model(x).detach()
    config = {"name": "integer", "data_in_scale": "float", "weight_scale": "float", "bias_name": "float"}
    graph = quantized(model, x, config)
    before = float((graph.model.eval()(x).detach() - expected).square().sum())
    graph, info = smooth_transform_pass(graph, {"input_generator": [{"input": x}]})
    assert info["layers"]["norm"]["gain_db"] > 3
    assert float((graph.model.eval()(x).detach() - expected).square().sum()) < before / 2
    plain, _ = smooth_transform_pass(
        quantized(model, x, {"name": "float"}), {"input_generator": [{"input": x}], "exponent": 0.5}
    )
    torch.testing.assert_close(plain.model.eval()(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_smoothing_leaves_alone_what_it_cannot_know_or_would_harm() -> None:
    """Channels that are always 0 keep their factor, and fixed-point layers are not scaled channel by channel."""
    torch.manual_seed(0)
    model = Branches().eval()
    with torch.no_grad():
        model.norm.weight[7] = model.norm.bias[7] = 0.0
        model.norm.weight[5] = 30.0
    x = torch.randn(200, 32)
    given = {"input_generator": [{"input": x}], "exponent": 0.5}
    config = {"name": "integer", "data_in_scale": "float", "weight_scale": "float", "bias_name": "float"}
    graph, _ = smooth_transform_pass(quantized(model, x, config), given)
    changed = weight_of(graph, "a.weight") / weight_of(model, "a.weight")
    assert changed[:, 7].allclose(torch.ones(64))
    assert changed[:, [i for i in range(32) if i != 7]].log().mean().abs() < 1e-4
    chain = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    _, info = smooth_transform_pass(quantized(chain, x, FIXED), given)
    assert info["layers"] == {}
    _, info = smooth_transform_pass(quantized(chain, x, PER_CHANNEL), given)
    assert list(info["layers"]) == ["_0"]


def test_smoothing_leaves_the_statistics_of_batch_norms_alone() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
    )
    graph = quantized(model.train(), x := torch.randn(50, 8), PER_CHANNEL)
    before = {key: value.clone() for key, value in graph.model.named_buffers() if "running" in key}
    smooth_transform_pass(graph, {"input_generator": [{"input": x}]})
    after = dict(graph.model.named_buffers())
    assert before
    assert all(value.equal(after[key]) for key, value in before.items())


@pytest.mark.slow
def test_smoothing_takes_sequences_with_a_normalisation_over_another_axis() -> None:
    """Rows of all tokens are compared; a norm over the tokens cannot be computed on them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.BatchNorm1d(5), nn.ReLU()).eval()
    with torch.no_grad():
        weight_of(model)[3] = 30.0
    x = torch.randn(40, 5, 8)
    config = {"name": "integer", "data_in_scale": "float", "weight_scale": "float", "bias_name": "float"}
    graph, info = smooth_transform_pass(quantized(model, x, config), {"input_generator": [{"input": x}]})
    assert info["layers"]["_0"]["gain_db"] > 1
    assert squared_error(graph.model, model, x) < squared_error(quantized(model, x, config).model, model, x)


def test_inputs_are_clipped_for_the_output_after_the_activation() -> None:
    """A large input with a negative weight ends at the ReLU: it may saturate, and the others are rounded finely."""
    model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU())
    with torch.no_grad():
        weight_of(model).copy_(torch.tensor([[1.0, -1.0]]))
    x = torch.tensor([[0.3, 0.0], [0.9, 0.0], [0.55, 0.0], [0.1, 8.0]])
    config = {"name": "integer", "data_in_width": 4, "weight_name": "float", "bias_name": "float"}
    steps = []
    for layers in (model, model[:1]):
        graph, _ = clip_transform_pass(quantized(layers, x, config), {"input_generator": [{"input": x}]})
        layer = graph.modules["0"]
        assert isinstance(layer, QuantizedLayer)
        steps.append(layer.formats["data_in_0"].precision)
    # Without the ReLU: one fraction bit has the squared errors 0.04, 0.01, 0.0025 and 0.16, none has 0.09, 0.01,
    # 0.2025 and 0.01, and two saturate 8 at 3.75.
    assert steps == [[4, 4], [4, 1]]


def test_the_mean_error_of_each_output_is_removed_by_hand_computed_biases() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        weight_of(model).copy_(torch.tensor([[0.30, 0.5], [1.0, -0.55]]))
    x = torch.tensor([[1.0, 2.0], [3.0, 2.0]])
    graph = quantized(model, x, {**FIXED, "weight_frac_width": 1})  # rounded to [[0.5, 0.5], [1, -0.5]]
    graph, info = correct_bias_transform_pass(graph, {"input_generator": [{"input": x}]})
    # The mean input is (2, 2), so that the outputs are 0.4 and 0.1 too large on average.
    torch.testing.assert_close(graph.model.get_parameter("0.bias"), torch.tensor([-0.4, -0.1]))
    # Errors before: 0.2, 0.6, 0.1, 0.1 of outputs 1.3, 1.9, -0.1, 1.9; after: -0.2, 0.2, 0, 0.
    assert info["layers"]["_0"]["before_db"] == pytest.approx(13.27, abs=0.01)
    assert info["layers"]["_0"]["after_db"] == pytest.approx(20.47, abs=0.01)


def test_clipping_chooses_fraction_bits_with_the_least_error() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 16)), torch.randn(500, 16)
    with torch.no_grad():
        weight_of(model).mul_(0.3)
    config = {"name": "integer", "weight_width": 4, "data_in_width": 4, "bias_name": "float"}
    graph = quantized(model, x, config)  # two fraction bits each: all weights become 0
    graph, info = clip_transform_pass(graph, {"input_generator": [{"input": x}], "num_samples": 500})
    layer = graph.modules["0"]
    assert isinstance(layer, QuantizedLayer)
    assert [layer.formats[name].precision for name in ("weight", "data_in_0")] == [[4, 6], [4, 1]]
    errors = {  # of all pairs of fraction bits
        (a, b): float(
            (nn.functional.linear(quantize(x, a), quantize(weight_of(model), b)) - x @ weight_of(model).t())
            .square()
            .sum()
        )
        for a, b in itertools.product(range(4), range(3, 9))
    }
    assert min(errors, key=lambda each: errors[each]) == (1, 6)
    assert info["layers"]["_0"]["gain_db"] > 10


def quantize(x: Tensor, fraction: int) -> Tensor:
    rounded: Tensor = (x.detach() * 2.0**fraction).round().clamp(-8, 7) / 2.0**fraction
    return rounded


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_learned_rounding_finds_one_of_the_best_of_all_roundings(seed: int) -> None:
    torch.manual_seed(seed)
    mixing = torch.randn(8, 8)
    x = torch.randn(200, 8) @ mixing
    model = nn.Sequential(nn.Linear(8, 1, bias=False))
    graph = quantized(model, x, FIXED)
    weight = weight_of(model)
    down = (weight * 8).floor() / 8
    choices = torch.tensor(list(itertools.product((0.0, 0.125), repeat=8)))
    errors = ((down + choices - weight) @ x.t()).square().sum(1)
    graph, _ = adaround_transform_pass(graph, {"input_generator": [{"input": x}], "num_samples": 200})
    layer = graph.modules["0"]
    assert isinstance(layer, QuantizedLayer)
    found = float(((layer.rounded("weight", weight_of(graph)) - weight) @ x.t()).square().sum())
    nearest = float((((weight * 8).round() / 8 - weight) @ x.t()).square().sum())
    assert float(errors.min()) * 0.999 <= found <= nearest
    assert (errors < found * 0.999).sum() <= 3, "of 256 roundings"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.rounds])
@pytest.mark.parametrize("method", METHODS)
def test_no_method_makes_the_output_in_a_format_worse(method: str, name: str) -> None:
    model, x = norm_and_linear()
    graph = quantized(model, x, {"name": name})
    before = squared_error(graph.model, model, x)
    given = {"input_generator": [{"input": x}], **({"iterations": 60} if method == "adaround" else {})}
    graph, info = PASSES[method](graph, given)
    assert squared_error(graph.model, model, x) <= before * (1 + 1e-5)
    assert all(layer["gain_db"] >= 0 for layer in info["layers"].values())


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.rounds])
@pytest.mark.parametrize("method", ["equalize", "rotate"])
def test_rotated_and_equalised_layers_of_every_format_compute_the_same_without_rounding(
    method: str, name: str
) -> None:
    model, x = norm_and_linear()
    graph, _ = PASSES[method](quantized(model, x, {"name": name}))
    for layer in graph.model.modules():
        if isinstance(layer, QuantizedLayer):
            layer.formats = {}
    torch.testing.assert_close(graph.model.eval()(x), model(x), rtol=1e-4, atol=1e-4)


def norm_and_linear() -> tuple[nn.Module, Tensor]:
    """Return a linear layer after a normalisation, with channels of very different magnitude."""
    torch.manual_seed(2)
    x = torch.randn(100, 40) @ torch.randn(40, 40) + 1
    model = nn.Sequential(nn.LayerNorm(40), nn.Linear(40, 12)).eval()
    with torch.no_grad():
        weight_of(model).mul_(torch.randn(40).exp())
    return model, x


def squared_error(changed: nn.Module, model: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        return float((changed.eval()(x) - model(x)).square().sum())


@pytest.mark.slow
def test_all_methods_one_after_the_other_give_an_ordinary_quantised_graph(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 8)
    ).eval()
    x = torch.randn(40, 3, 6, 6)
    given = {"input_generator": [{"input": x}]}
    graph, _ = PASSES["fold_batch_norm"](annotated(model, input=x))
    graph, _ = equalize_transform_pass(graph)
    config = {"name": "mxint", "weight_width": 4, "data_in_width": 6}
    graph, _ = quantize_transform_pass(
        graph, {"by": "type", **{op: {"config": config} for op in ("conv2d", "linear")}}
    )
    graph, _ = rotate_transform_pass(graph)
    for run in (smooth_transform_pass, gptq_transform_pass, correct_bias_transform_pass):
        graph, _ = run(graph, given)
    expected = graph.model.eval()(x)
    assert ((expected - model(x)).square().sum() / model(x).square().sum()).item() < 0.05
    save_graph(graph, tmp_path / "graph")
    loaded = load_graph(tmp_path / "graph")
    assert loaded.model.eval()(x).equal(expected)
    file = tmp_path / "model.safetensors"
    PASSES["export_safetensors"](loaded, {"path": file, **given})
    assert file.exists()
    loaded.model.train()(x).sum().backward()
    assert loaded.model.get_parameter("0.weight").grad is not None


@pytest.mark.slow
def test_fixed_point_layers_after_all_methods_become_a_circuit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    x = torch.randn(64, 4)
    graph, _ = PASSES["fold_batch_norm"](annotated(model, input=x))
    graph, _ = equalize_transform_pass(graph)
    config = {"name": "integer", "weight_width": 6, "data_in_width": 6, "bias_width": 8}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    for run in (clip_transform_pass, gptq_transform_pass, correct_bias_transform_pass):
        graph, _ = run(graph, {"input_generator": [{"input": x}]})
    PASSES["emit_verilog"](graph, {"save_dir": tmp_path})
    assert list(tmp_path.rglob("*.sv"))
