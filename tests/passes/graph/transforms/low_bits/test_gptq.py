"""GPTQ against its formula, and over all formats."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.ir.graph.storage import load_graph, save_graph
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph import gptq_transform_pass, quantize_transform_pass
from chop.passes.graph.transforms.low_bits.gptq import best_factors, refine_columns, round_columns
from chop.passes.graph.transforms.low_bits.input_moments import InputMoments
from chop.passes.graph.transforms.low_bits.layer_problem import LayerProblem, with_damping
from samples import annotated

W4 = {"name": "integer", "data_in_name": "float", "bias_name": "float", "weight_width": 4, "weight_scale": "float"}
PER_CHANNEL = {**W4, "weight_granularity": "channel"}


def correlated(rows: int, columns: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(columns, columns, generator=generator) / columns**0.5
    x: Tensor = torch.randn(rows, columns, generator=generator) @ mixing + 0.3
    return x


def weight_of(graph: MaseGraph) -> Tensor:
    """Return the rounded weight of the layer `0`."""
    layer = graph.modules["0"]
    assert isinstance(layer, QuantizedLayer)
    weight = layer.quantized("weight")
    assert weight is not None
    return weight.detach()


def quantized(model: nn.Module, x: Tensor, config: dict[str, Any]) -> MaseGraph:
    arguments = {"by": "type", "default": {"config": {"name": None}}}
    ops = {"linear": {"config": config}, "conv2d": {"config": config}, "conv1d": {"config": config}}
    graph = annotated(model, input=x)
    used = {meta.mase_op for meta in graph.metas()}
    return quantize_transform_pass(graph, arguments | {op: each for op, each in ops.items() if op in used})[0]


def quarters(column: Tensor, at: int) -> Tensor:
    return (column * 4).round() / 4


def one_column_after_the_other(weight: Tensor, products: Tensor, damping: float) -> Tensor:
    """The formula of the paper: round a column, distribute its error, eliminate it from the inverse Hessian."""
    weight, result = weight.clone(), torch.empty_like(weight)
    inverse = torch.linalg.inv(products + damping * products.diagonal().mean() * torch.eye(len(products)))
    for i in range(weight.shape[1]):
        result[:, i] = (weight[:, i] * 4).round() / 4
        error = (weight[:, i] - result[:, i]) / inverse[i, i]
        weight -= error[:, None] * inverse[i][None, :]
        inverse = inverse - inverse[:, i : i + 1] * inverse[i : i + 1, :] / inverse[i, i]
    return result


@pytest.mark.parametrize("columns", [5, 70])  # within a block of columns, and over several
def test_columns_are_rounded_by_the_formula_of_the_paper(columns: int) -> None:
    x = correlated(200, columns).double()
    weight = torch.randn(6, columns, generator=torch.Generator().manual_seed(1)).double()
    products = x.t() @ x / len(x)
    found = round_columns(weight, with_damping(products, 0.02), quarters, order=False)
    assert found.equal(one_column_after_the_other(weight, products, 0.02))


def test_a_hessian_without_an_inverse_is_damped_until_it_has_one() -> None:
    """Rounding errors make the smallest eigenvalue of products with few rows negative."""
    rows = torch.randn(2, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    hessian = rows.T @ rows - 1e-9 * torch.eye(9, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="positive-definite"):
        torch.linalg.cholesky(hessian)
    weight = torch.randn(4, 9, generator=torch.Generator().manual_seed(1))
    found = round_columns(weight, hessian, lambda column, i: column.round())
    assert found.equal(found.round())

    def error(rounded: Tensor) -> float:
        return float(((rounded - weight).double() @ rows.T).square().sum())

    assert error(found) < error(weight.round())
    no_inputs = with_damping(torch.zeros(9, 9, dtype=torch.float64), 0.01)
    assert round_columns(weight, no_inputs, lambda column, i: column.round()).equal(weight.round())
    equal_inputs = torch.ones(9, 9, dtype=torch.float64)  # the second pivot is 0
    assert round_columns(weight, equal_inputs, lambda column, i: column.round()).isfinite().all()
    with pytest.raises(ValueError, match="mean products of its inputs are not finite"):
        round_columns(weight, hessian * torch.nan, lambda column, i: column.round())


def test_the_order_of_the_inputs_is_that_of_their_mean_squares() -> None:
    x = correlated(200, 8).double() * torch.tensor([1, 2e6, 4, 3e5, 9, 5e4, 70, 4e3])
    order = torch.tensor([1, 3, 5, 7, 6, 4, 2, 0])
    products = x.t() @ x / len(x)
    assert products.diagonal().argsort(descending=True).equal(order)
    weight = torch.randn(4, 8).double()
    found = round_columns(weight, with_damping(products, 0.01), quarters)
    permuted = one_column_after_the_other(weight[:, order], products[order][:, order], 0.01)
    assert found[:, order].equal(permuted)


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.rounds])
def test_no_format_is_worse_than_rounded_to_nearest_and_layers_keep_what_was_found(name: str) -> None:
    torch.manual_seed(3)
    x = correlated(300, 48)
    graph = quantized(
        nn.Sequential(nn.Linear(48, 24)), x[:2], {"name": name, "data_in_name": "float", "bias_name": "float"}
    )
    expected = plain(graph, x)
    before = float((graph.model(x) - expected).detach().square().sum())
    signal = float((expected - graph.model.get_parameter("0.bias")).detach().square().sum())
    graph, info = gptq_transform_pass(graph, {"input_generator": [{"input": x}], "num_samples": 300})
    after = float((graph.model(x) - expected).detach().square().sum())
    assert after <= before * (1 + 1e-5)
    assert info["layers"]["_0"]["gain_db"] >= 0
    assert info["layers"]["_0"]["after_db"] == pytest.approx(10 * math.log10(signal / after), abs=0.01)


def plain(graph: MaseGraph, x: Tensor) -> Tensor:
    """Return what the layer `0` computes without rounding."""
    parameters = (graph.model.get_parameter(f"0.{name}") for name in ("weight", "bias"))
    return nn.functional.linear(x, *parameters).detach()


def test_the_error_with_other_inputs_than_in_the_float_model_is_that_of_the_outputs() -> None:
    original = correlated(100, 6).double()
    inputs = original + 0.3 * correlated(100, 6, seed=1) + 0.2
    layer = nn.Linear(6, 4).double()
    weight, rounded = layer.weight.detach(), quarters(layer.weight.detach(), 0)
    moments = InputMoments.of(layer, [inputs[:30], inputs[30:]], [None, None], "", [original[:30], original[30:]])
    shift = torch.tensor([[0.5, 0.0, -1.0, 2.0]]).double()
    difference = inputs @ rounded.t() + shift - original @ weight.t()
    torch.testing.assert_close(
        moments.squared_error(rounded[None], weight[None], shift)[0], difference.square().mean(0)
    )
    torch.testing.assert_close(moments.mean_error(rounded[None], weight[None]) + shift, difference.mean(0)[None])


@pytest.mark.parametrize("bias_name", ["float", "integer"])
def test_the_target_has_the_least_squared_error_of_all_weights(bias_name: str) -> None:
    """For a float bias with the best bias; for a rounded one with this bias."""
    torch.manual_seed(0)
    original = correlated(400, 5)
    inputs = original + 0.3 * correlated(400, 5, seed=1) + 0.2
    config = {**PER_CHANNEL, "bias_name": bias_name} | ({"bias_width": 3} if bias_name == "integer" else {})
    graph = quantized(nn.Sequential(nn.Linear(5, 3)), inputs, config)
    meta = next(meta for meta in graph.metas() if meta.node.name == "_0")
    layer = meta.quantized
    assert isinstance(layer, QuantizedLayer)
    weight, bias = (graph.model.get_parameter(f"0.{name}").detach().double() for name in ("weight", "bias"))
    moments = InputMoments.of(layer, [inputs], [None], "", [original])
    found = LayerProblem(meta, layer, weight[None].float(), moments).target(1e-9)
    wanted = original.double() @ weight.t() + bias
    columns = inputs.double()
    if bias_name == "float":
        columns = torch.cat([columns, torch.ones(400, 1)], 1)
    else:
        wanted = wanted - layer.rounded("bias", bias.float())
    expected = torch.linalg.lstsq(columns, wanted).solution[:5].t()
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-4, atol=1e-4)


def test_refined_columns_cannot_be_improved_by_any_other_value() -> None:
    x = correlated(200, 12).double()
    weight = torch.randn(3, 12, generator=torch.Generator().manual_seed(1)).double()
    hessian = with_damping(x.t() @ x / len(x), 0.01)

    def error(result: Tensor) -> Tensor:
        return (((result - weight) @ hessian) * (result - weight)).sum(1)

    start = quarters(weight, 0)
    found = start
    for _ in range(50):
        found = refine_columns(found, weight, hessian, quarters)
    assert (error(found) <= error(start)).all()
    assert error(found).sum() < 0.8 * error(start).sum()
    for at in range(12):
        for step in (-0.25, 0.25):
            other = found.clone()
            other[:, at] += step
            assert (error(other) >= error(found)).all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [12, 4])
def test_factors_of_groups_have_the_least_squared_error(size: int) -> None:
    """With one group per row in one step; with three groups, by repetition: compared with least squares."""
    x = correlated(200, 12).double()
    weight = torch.randn(3, 12, generator=torch.Generator().manual_seed(1)).double()
    result = quarters(weight, 0)
    groups = torch.arange(12).div(size, rounding_mode="floor") + 12 // size * torch.arange(3).unsqueeze(1)
    found = torch.ones_like(weight)
    for _ in range(1 if size == 12 else 200):
        found = found * best_factors(result * found, weight, x.t() @ x, groups)
    for row in range(3):
        columns = torch.stack([x[:, i : i + size] @ result[row, i : i + size] for i in range(0, 12, size)], 1)
        expected = torch.linalg.lstsq(columns, x @ weight[row].unsqueeze(1)).solution
        torch.testing.assert_close(found[row, ::size], expected[:, 0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        PER_CHANNEL,
        {**W4, "weight_granularity": "group", "weight_group_size": 16},
        {"name": "mxfp", "data_in_name": "float", "bias_name": "float", "weight_element": "e2m1"},
        {"name": "nvfp4", "data_in_name": "float", "bias_name": "float"},
        {"name": "block_fp", "data_in_name": "float", "bias_name": "float", "weight_width": 4},
        {
            "name": "integer",
            "data_in_name": "float",
            "bias_name": "float",
            "weight_width": 4,
            "weight_frac_width": 3,
        },
    ],
)
def test_four_bits_lose_a_decibel_or_more_less(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    graph = quantized(nn.Sequential(nn.Linear(64, 32)), correlated(2, 64), config)
    _, info = gptq_transform_pass(graph, {"input_generator": [{"input": correlated(500, 64)}], "num_samples": 500})
    assert info["layers"]["_0"]["gain_db"] > 1.0


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Conv2d(6, 8, 3, padding=1, stride=2), (16, 6, 9, 9)),
        (nn.Conv2d(6, 6, 3, groups=3, padding="same", dilation=2), (16, 6, 9, 9)),
        (nn.Conv2d(4, 6, (1, 3), padding=(0, 1), padding_mode="circular"), (16, 4, 5, 5)),
        (nn.Conv1d(4, 6, 3, padding=1), (16, 4, 20)),
    ],
)
def test_the_error_of_a_convolution_is_that_of_its_output(model: nn.Module, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape).cumsum(-1)
    with torch.no_grad():
        expected = model(x)
    signal = expected - model.bias.detach().reshape(-1, *[1] * (x.dim() - 2))  # type: ignore[operator]
    graph = quantized(nn.Sequential(model), x, PER_CHANNEL)
    graph, info = gptq_transform_pass(graph, {"input_generator": [{"input": x[:9]}, {"input": x[9:]}]})
    with torch.no_grad():
        error = graph.model(x) - expected
    db = 10 * math.log10(signal.square().sum() / error.square().sum())
    assert info["layers"]["_0"]["after_db"] == pytest.approx(db, abs=0.1)
    assert info["layers"]["_0"]["gain_db"] > 0.5


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x).relu()) * attention_mask.unsqueeze(-1)
        return y


@pytest.mark.slow
def test_padded_tokens_do_not_count_and_too_few_rows_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    x, mask = correlated(2 * 5, 8).reshape(2, 5, 8), torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])

    def result(garbage: float) -> dict[str, Tensor]:
        torch.manual_seed(0)
        inputs = {"x": torch.where(mask.bool().unsqueeze(-1), x, garbage), "attention_mask": mask}
        graph = annotated(Tokens(), **inputs)
        graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": PER_CHANNEL}})
        graph, info = gptq_transform_pass(graph, {"input_generator": [inputs]})
        assert info["layers"]["first"]["rows"] == 5
        return dict(graph.model.state_dict())

    with caplog.at_level(logging.WARNING):
        one, other = result(0.0), result(99.0)
    assert all(one[key].equal(other[key]) for key in one)
    assert "node 'first' and 1 other layers: 5 rows of data for 8 inputs are few" in caplog.text


def test_the_original_model_is_not_changed_and_the_graph_saves_loads_and_trains(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    x = correlated(64, 16)
    graph = quantized(model, x, PER_CHANNEL)
    graph.model.train()
    graph, _ = gptq_transform_pass(graph, {"input_generator": [{"input": x}]})
    assert all(module.training for module in graph.model.modules())
    assert all(value.equal(before[key]) for key, value in model.state_dict().items())
    expected = graph.model.eval()(x)
    save_graph(graph, tmp_path)
    loaded = load_graph(tmp_path)
    assert loaded.model.eval()(x).equal(expected)
    loaded.model.train()(x).square().sum().backward()
    assert loaded.model.get_parameter("0.weight").grad is not None


@pytest.mark.slow
def test_an_interrupted_run_continues_after_its_finished_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), correlated(64, 16)
    given = {"input_generator": [{"input": x}], "checkpoint": tmp_path / "layers"}
    first, _ = gptq_transform_pass(quantized(model, x, PER_CHANNEL), given)
    files = sorted(path.name for path in (tmp_path / "layers").iterdir())
    assert files == ["gptq-_0.safetensors", "gptq-_2.safetensors"]
    (tmp_path / "layers" / files[1]).unlink()
    times = (tmp_path / "layers" / files[0]).stat().st_mtime_ns
    second, _ = gptq_transform_pass(quantized(model, x, PER_CHANNEL), given)
    assert (tmp_path / "layers" / files[0]).stat().st_mtime_ns == times  # it was read, not written again
    assert all(v.equal(second.model.state_dict()[k]) for k, v in first.model.state_dict().items())
    with torch.no_grad():
        model.get_parameter("0.bias").add_(1.0)
    moved, _ = gptq_transform_pass(quantized(model, x, PER_CHANNEL), given)
    assert (moved.model.get_parameter("0.bias") - first.model.get_parameter("0.bias")).mean() > 0.5
    other, _ = gptq_transform_pass(quantized(model, 2 * x, PER_CHANNEL), {**given, "damping": 0.5})
    assert (tmp_path / "layers" / files[0]).stat().st_mtime_ns != times  # other arguments: computed again
    assert other is not None
    (tmp_path / "layers" / files[0]).write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"gptq-_0.safetensors is corrupt .* delete it"):
        gptq_transform_pass(quantized(model, x, PER_CHANNEL), given)


def test_weights_make_up_for_rounded_inputs_unless_told_otherwise() -> None:
    x = correlated(400, 24)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 12, bias=False))
    config = {**PER_CHANNEL, "data_in_name": "integer", "data_in_width": 3, "data_in_scale": "float"}
    errors: dict[bool, tuple[float, float]] = {}
    for given in (True, False):
        graph, info = gptq_transform_pass(
            quantized(model, x, config),
            {"input_generator": [{"input": x}], "num_samples": 400, "earlier_layers": given},
        )
        layer = graph.modules["0"]
        assert isinstance(layer, QuantizedLayer)
        rounded = layer.rounded("data_in_0", x)
        found = rounded @ weight_of(graph).t()
        of_model, of_inputs = (each @ model.get_parameter("0.weight").detach().t() for each in (x, rounded))
        errors[given] = tuple(float((found - each).square().sum()) for each in (of_model, of_inputs))  # type: ignore[assignment]
        assert info["layers"]["_0"]["gain_db"] > 0
    assert errors[True][0] < errors[False][0]
    assert errors[False][1] < errors[True][1]


def test_bad_arguments_are_reported() -> None:
    graph = quantized(nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4), PER_CHANNEL)
    with pytest.raises(ValueError, match="'damping' must be above 0, got 0"):
        gptq_transform_pass(graph, {"input_generator": [], "damping": 0.0})
    with pytest.raises(ValueError, match="'sweeps' must be at least 0, got -1"):
        gptq_transform_pass(graph, {"input_generator": [], "sweeps": -1})
    with pytest.raises(ValueError, match="gptq: input_generator yields no batches"):
        gptq_transform_pass(graph, {"input_generator": []})
