"""Explanations of nodes: shares, unused bits and noise, compared with hand-computed numbers and numpy."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.formats import FORMATS, Format
from chop.formats.integer import Integer
from chop.formats.microscaling import MXInt
from chop.ir import MaseGraph
from chop.nn.quantized import quantize_layer
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    calibrate_transform_pass,
    explain,
    explain_analysis_pass,
    explain_node,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.quantization.suggest import best_of_width, narrowest
from chop.registry import UnknownNameError
from chop.statistics.format_fit import MAX_SAMPLE_SIZE, FormatFitMeter, has_even_steps
from samples import LAB_CONFIG, Mixed, annotated

LAB = Integer(8, 4)


def linear(*weights: float, bias: float | None = None) -> nn.Linear:
    layer = nn.Linear(len(weights), 1, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights]))
        if bias is not None:
            layer.bias.fill_(bias)
    return layer


def lab_linear(*weights: float, **formats: Format) -> nn.Module:
    return quantize_layer(linear(*weights), {"data_in_0": LAB, "weight": LAB, **formats}, "Integer")


def numpy_sqnr(values: np.ndarray[Any, Any], rounded: np.ndarray[Any, Any]) -> float:
    noise = ((values - rounded) ** 2).sum()
    return math.inf if noise == 0 else float(10 * np.log10((values**2).sum() / noise))


def numpy_fixed_point(values: np.ndarray[Any, Any], width: int, frac_width: int) -> np.ndarray[Any, Any]:
    integers = np.round(values * 2.0**frac_width)
    return np.clip(integers, -(2 ** (width - 1)), 2 ** (width - 1) - 1) / 2.0**frac_width


def weight_of(layer: nn.Module, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = explain(layer, **options).as_dict()["operands"]["weight"]
    return found


def test_the_fit_of_a_weight_agrees_with_hand_computed_numbers() -> None:
    """9 is beyond 7.9375, 0.02 is less than half of a sixteenth, 0.3 becomes 5/16, and -0.5 is kept."""
    found = weight_of(lab_linear(0.3, 9.0, 0.02, -0.5))
    assert (found["min"], found["max"], found["holds"]) == (-0.5, 9.0, (-8.0, 7.9375))
    assert (found["saturated"], found["to_zero"], found["unused_bits"]) == (0.25, 0.25, 0)
    noise = (0.3125 - 0.3) ** 2 + (9 - 7.9375) ** 2 + 0.02**2
    signal = 0.3**2 + 9**2 + 0.02**2 + 0.5**2
    assert found["sqnr_db"] == pytest.approx(10 * math.log10(signal / noise), abs=1e-5)


@pytest.mark.parametrize(
    ("largest", "spare"), [(7.9375, 0), (3.97, 0), (3.96, 1), (0.4, 4), (-8.0, 0), (-4.0, 1), (0.0, None)]
)
def test_unused_bits_are_the_doublings_that_still_fit(largest: float, spare: int | None) -> None:
    assert weight_of(lab_linear(largest, 0.0))["unused_bits"] == spare


def test_without_an_input_only_parameters_are_explained() -> None:
    found = explain(quantize_layer(linear(0.3, bias=0.25), {"weight": LAB, "bias": LAB}, "Integer")).as_dict()
    assert list(found["operands"]) == ["weight", "bias"]
    assert (found["results"], found["cost"], found["num_samples"]) == ({}, None, 0)
    assert found["operands"]["bias"]["sqnr_db"] == math.inf


def test_a_layer_with_an_input_agrees_with_hand_computed_numbers() -> None:
    """0.3 becomes 0.3125 and 0.5 is kept, so that the result is off by 0.0125 / 0.3 in each row."""
    found = explain(lab_linear(0.3), torch.tensor([[0.5], [-1.0], [2.0]])).as_dict()
    assert found["result_sqnr_db"] == pytest.approx(20 * math.log10(0.3 / 0.0125), abs=1e-4)
    assert (found["op"], found["calls"], found["num_samples"]) == ("linear", "LinearInteger", 3)
    assert found["operands"]["data_in_0"]["sqnr_db"] == math.inf
    assert found["results"]["data_out_0"]["max"] == 0.625
    # 3 MACs, two operations each, of 8 x 8 bits
    assert found["cost"] == {
        "macs": 3,
        "operations": 6,
        "bitops": 3 * 8 * 8,
        "num_weights": 1,
        "weight_bits": 8,
    }


def test_the_best_fraction_bits_agree_with_hand_computed_numbers() -> None:
    """Halves from -1 to 1 need no more than 3 bits: of 2 bits, -2 ... 1 and -1 ... 0.5 both miss one by 0.5."""
    values = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    of_two = best_of_width(values, 2)
    assert of_two is not None
    assert of_two.sqnr_db == pytest.approx(10 * math.log10(2.25 / 0.25))
    found = narrowest(values, 30.0)
    assert found is not None
    assert (found.format.width, found.format.frac_width, found.sqnr_db) == (3, 1, math.inf)


@pytest.mark.parametrize("width", [2, 3, 5, 8, 12, 16])
@pytest.mark.parametrize("outlier", [1.0, 40.0, 3000.0])
def test_the_best_fraction_bits_agree_with_an_exhaustive_search_in_numpy(width: int, outlier: float) -> None:
    values = np.random.default_rng(0).normal(0, 0.2, 4000)
    values[7] = outlier
    wanted = max(numpy_sqnr(values, numpy_fixed_point(values, width, f)) for f in range(-16, 32))
    found = best_of_width(torch.from_numpy(values), width)
    assert found is not None
    assert isinstance(found.format.frac_width, int)
    assert found.sqnr_db == pytest.approx(wanted, abs=1e-6)
    rounded = numpy_fixed_point(values, width, found.format.frac_width)
    assert found.sqnr_db == pytest.approx(numpy_sqnr(values, rounded), abs=1e-6)


def test_the_narrowest_format_reaches_the_target_and_one_bit_less_does_not() -> None:
    values = torch.from_numpy(np.random.default_rng(1).normal(0, 1, 5000))
    for wanted in (10.0, 30.0, 60.0):
        found = narrowest(values, wanted)
        assert found is not None
        below = best_of_width(values, found.format.width - 1)
        assert below is not None
        assert found.sqnr_db >= wanted > below.sqnr_db


def test_a_target_that_no_integer_format_reaches_is_reported() -> None:
    """Over seven decades, 16 bits leave most values without any precision, but those carry next to no power."""
    tiny = torch.full((10_000,), 1e-6, dtype=torch.float64)
    values = torch.cat([tiny, torch.tensor([1e-4], dtype=torch.float64)])
    assert narrowest(values, 200.0) is None
    assert narrowest(torch.zeros(4, dtype=torch.float64), 30.0) is None
    sentences = explain(linear(1 / 3, 1 / 7), sqnr_db=200.0).sentences()
    assert sentences == ["weight: no integer format of up to 16 bits reaches 200 dB."]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_explained(name: str) -> None:
    number_format = FORMATS[name]().for_operand(reduce_dim=-1, channel_dim=0)
    layer = nn.Linear(32, 4)
    formats = {"data_in_0": number_format, "weight": number_format}
    quantized = quantize_layer(layer, formats, type(number_format).__name__)
    found = explain(quantized, 3 * torch.randn(16, 32))
    weight, rounded = layer.weight.detach(), number_format.quantize(layer.weight.detach())
    shown = found.as_dict()["operands"]["weight"]
    expected = numpy_sqnr(weight.double().numpy(), rounded.double().numpy())
    assert shown["sqnr_db"] == pytest.approx(expected, abs=1e-6)
    assert shown["to_zero"] == ((rounded == 0) & (weight != 0)).double().mean().item()
    assert shown["bits"] == number_format.bits
    for entry in (shown, found.as_dict()["operands"]["data_in_0"]):
        assert 0 <= entry["saturated"] <= 1
        if entry["holds"] is not None:
            low, high = entry["holds"]
            assert low <= rounded.min() <= rounded.max() <= high
    json.dumps(found.as_dict())
    assert str(number_format) in str(found)


@pytest.mark.parametrize("name", FORMATS)
def test_a_huge_value_saturates_unless_the_format_adapts_or_includes_it(name: str) -> None:
    number_format = FORMATS[name]().for_operand(reduce_dim=-1, channel_dim=0)
    meter = FormatFitMeter(number_format)
    meter.add(torch.full((2, 32), 2.0**126))
    adapts = {"binary", "ternary", "nvfp4", "mxfp", "mxint", "block_fp", "block_log", "block_minifloat"}
    assert (meter.read().holds is None) == (name in adapts)
    assert meter.read().saturated == (0 if name in {*adapts, "float", "bfloat16"} else 1)


def test_a_learned_scale_decides_the_range_of_an_operand() -> None:
    """A learned step of 0.125 and 8 bits: from -16 to 15.875."""
    layer = quantize_layer(linear(20.0, 0.3), {"weight": Integer(8, scale="learned")}, "Integer")
    with torch.no_grad():
        layer.weight_scale.fill_(0.125)  # type: ignore[operator]
    found = weight_of(layer)
    assert found["holds"] == (-16.0, 15.875)
    assert (found["saturated"], found["unused_bits"]) == (0.5, 0)


def test_a_calibrated_scale_is_used() -> None:
    graph = annotated(nn.Sequential(linear(0.5, 0.25)), input=torch.tensor([[1.0, -2.0]]))
    config = {"name": "integer", "data_in_width": 8, "data_in_scale": "float", "weight_width": 8}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    batches = [{"input": torch.tensor([[12.7, 1.0]])}]
    graph, _ = calibrate_transform_pass(graph, {"input_generator": batches, "num_batches": 1})
    _, info = explain_analysis_pass(graph, {"node": "_0"})
    low, high = info["operands"]["data_in_0"]["holds"]
    assert (low, high) == (pytest.approx(-12.8), pytest.approx(12.7))


def test_without_a_sign_negative_values_saturate() -> None:
    meter = FormatFitMeter(Integer(8, 4, is_signed=False))
    meter.add(torch.tensor([-1.0, -0.01, 3.0, 20.0]))
    found = meter.read()
    assert found.holds == (0.0, 15.9375)
    assert (found.saturated, found.to_zero, found.unused_bits) == (0.75, 0.5, 0)


def test_one_bit_holds_no_positive_value() -> None:
    """Of one bit in two's complement, -1 and 0 are all there is."""
    found = weight_of(quantize_layer(linear(0.75, -0.75), {"weight": Integer(1, 0)}, "Integer"))
    assert (found["holds"], found["saturated"], found["unused_bits"]) == ((-1.0, 0.0), 0.5, 0)


def test_blocks_saturate_independently() -> None:
    """In mxint, -2 is left out: of 1.999 and 0.1 in blocks of 2, the first is cut to 127 / 64."""
    number_format = MXInt(block_size=2, block_dim=-1)
    meter = FormatFitMeter(number_format)
    meter.add(torch.tensor([[1.999, 0.1, 0.01, 0.005]]))
    assert meter.read().saturated == 0.25
    assert meter.read().holds is None


class Thirds(Format):
    """A user's format that says nothing of codes."""

    name = "thirds"
    width = 3

    def quantize(self, x: Tensor) -> Tensor:
        return (x * 3).round().clamp(-3, 3) / 3


def test_the_range_of_a_format_without_codes_is_found_by_rounding() -> None:
    meter = FormatFitMeter(Thirds())
    meter.add(torch.tensor([0.1, 0.4, 1.5, -2.0]))
    found = meter.read()
    assert found.holds == (-1.0, 1.0)
    assert (found.saturated, found.to_zero, found.unused_bits) == (0.5, 0.25, None)


def test_unused_bits_need_evenly_spaced_values() -> None:
    even = {name for name, each in FORMATS.items() if has_even_steps(each())}
    assert even == {"integer", "block_fp", "mxint", "binary", "ternary"}
    assert has_even_steps(Integer(24, 12))
    assert weight_of(quantize_layer(linear(1.0), {"weight": Integer(24, 12)}, "Integer"))["unused_bits"] == 10


def test_nan_and_infinity_are_counted_separately() -> None:
    found = weight_of(lab_linear(float("nan"), float("inf"), 0.5, 9.0))
    assert (found["num_not_finite"], found["num_values"], found["saturated"]) == (2, 2, 0.5)
    assert (found["min"], found["max"]) == (0.5, 9.0)
    assert "2 values are NaN or infinite" in str(explain(lab_linear(float("nan"), float("inf"), 0.5)))


def test_a_tensor_of_nans_has_no_range() -> None:
    found = weight_of(lab_linear(float("nan")))
    assert (found["min"], found["sqnr_db"], found["saturated"], found["narrowest"]) == (None, None, None, None)


def test_batches_add_up_to_all_their_rows() -> None:
    graph = annotated(nn.Sequential(lab_linear(0.3, 0.7)), input=torch.randn(2, 2))
    rows = torch.from_numpy(np.random.default_rng(2).normal(0, 4, (100, 2))).float()
    batches = [{"input": part} for part in rows.split(33)]
    found = explain_node(graph, "_0", batches).as_dict()["operands"]["data_in_0"]
    values = rows.double().numpy()
    assert found["num_values"] == 200
    assert (found["min"], found["max"]) == (values.min(), values.max())
    assert found["saturated"] == ((values < -8) | (values > 7.9375)).mean()
    assert found["sqnr_db"] == pytest.approx(numpy_sqnr(values, numpy_fixed_point(values, 8, 4)), abs=1e-6)
    some = explain_analysis_pass(graph, {"node": "_0", "input_generator": batches, "num_samples": 40})[1]
    assert some["operands"]["data_in_0"]["max"] == values[:40].max()
    assert some["num_samples"] == 40


def test_endless_batches_are_stopped() -> None:
    def forever() -> Any:
        while True:
            yield {"input": torch.randn(64, 2)}

    graph = annotated(nn.Sequential(lab_linear(0.3, 0.7)), input=torch.randn(2, 2))
    assert explain_analysis_pass(graph, {"node": "_0", "input_generator": forever()})[1]["num_samples"] == 256


def test_a_fair_sample_of_many_values_is_kept() -> None:
    """A tenth of the values is 1, whichever batch they come in."""
    meter = FormatFitMeter(None)
    for batch in range(5):
        values = torch.zeros(MAX_SAMPLE_SIZE // 2)
        values[: len(values) // 10] = 1
        meter.add(values + 10 * batch)
    assert len(meter.sample) == MAX_SAMPLE_SIZE
    ones = (meter.sample % 10 == 1).double().mean().item()
    assert ones == pytest.approx(0.1, abs=0.005)
    shares = torch.bincount((meter.sample / 10).floor().long()) / MAX_SAMPLE_SIZE
    assert shares.tolist() == pytest.approx([0.2] * 5, abs=0.01)


class Functions(nn.Module):
    """A product of two activations, and a product with a parameter of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor([[0.3], [9.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(torch.matmul(x, self.matrix), inplace=True).mul(x)


@pytest.fixture
def functions() -> MaseGraph:
    graph = annotated(Functions(), x=torch.tensor([[0.5, 1.0], [-20.0, 0.01]]))
    return quantize_transform_pass(graph, {"by": "type", "default": {"config": LAB_CONFIG}})[0]


def test_functions_and_methods_are_explained(functions: MaseGraph) -> None:
    found = explain_analysis_pass(functions, {"node": "matmul"})[1]
    assert found["calls"] == "matmul_integer"
    assert found["operands"]["data_in_0"]["saturated"] == 0.25
    assert found["operands"]["data_in_0"]["to_zero"] == 0.25
    assert found["operands"]["data_in_1"]["role"] == "weight"
    assert found["operands"]["data_in_1"]["saturated"] == 0.5
    assert (found["cost"]["macs"], found["cost"]["num_weights"], found["cost"]["weight_bits"]) == (4, 2, 16)
    # 0.5 * 0.3125 + 7.9375 and -8 * 0.3125, for 0.5 * 0.3 + 9 and -20 * 0.3 + 0.01 * 9
    right, wrong = np.array([9.15, -5.91]), np.array([8.09375, -2.5])
    assert found["result_sqnr_db"] == pytest.approx(numpy_sqnr(right, wrong), abs=1e-4)
    assert explain_analysis_pass(functions, {"node": "mul"})[1]["calls"] == "mul_integer"


def test_the_input_of_an_in_place_function_is_observed_before_it_is_overwritten(functions: MaseGraph) -> None:
    found = explain_analysis_pass(functions, {"node": "relu"})[1]
    assert found["operands"]["data_in_0"]["min"] == -2.5
    assert found["results"]["data_out_0"]["min"] == 0


def test_a_rounded_result_is_measured_before_rounding() -> None:
    """0.5 * 20 = 10 is beyond 7.9375."""
    layer = lab_linear(0.5, data_out_0=LAB)
    found = explain(layer, torch.tensor([[7.0], [0.25]]))
    assert found.as_dict()["results"]["data_out_0"]["saturated"] == 0
    wide = quantize_layer(linear(0.5), {"data_out_0": LAB}, "Integer")
    shown = explain(wide, torch.tensor([[20.0], [0.25]])).as_dict()
    assert shown["results"]["data_out_0"]["max"] == 10
    assert (shown["results"]["data_out_0"]["saturated"], shown["results"]["data_out_0"]["format"]) == (
        0.5,
        str(LAB),
    )
    assert shown["result_sqnr_db"] == pytest.approx(
        10 * math.log10((100 + 0.125**2) / (10 - 7.9375) ** 2), abs=1e-4
    )
    assert wide.formats == {"data_out_0": LAB}


def test_a_format_is_suggested_for_operands_that_are_not_quantised() -> None:
    found = explain(linear(1.0, -1.0, 0.5))
    assert found.sentences() == ["weight: not quantised; integer(3, 1) would be exact."]
    shown = found.as_dict()["operands"]["weight"]
    assert (shown["format"], shown["saturated"], shown["sqnr_db"], shown["same_width"]) == (None, None, None, None)
    assert shown["narrowest"] == {"width": 3, "frac_width": 1, "sqnr_db": math.inf}


@pytest.mark.parametrize("name", [node.name for node in MaseGraph(Mixed()).fx_graph.nodes])
def test_every_node_of_a_graph_can_be_explained(name: str) -> None:
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    plain = explain_analysis_pass(graph, {"node": name})[1]
    assert plain["node"] == name
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": LAB_CONFIG}})
    json.dumps(explain_analysis_pass(graph, {"node": name})[1])


def test_indices_only_have_a_shape() -> None:
    found = explain(nn.Embedding(5, 3), torch.tensor([[1, 2]])).as_dict()
    assert list(found["operands"]["data_in_0"]) == ["role", "shape", "format", "bits", "same_width", "narrowest"]


def test_the_graph_and_the_layer_stay_unchanged() -> None:
    layer = nn.BatchNorm1d(2).train()
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    explain(layer, torch.randn(8, 2))
    assert layer.training
    assert all(value.equal(before[key]) for key, value in layer.state_dict().items())


@pytest.mark.parametrize("rounded", ["data_in_0", "data_out_0"])
def test_a_layer_in_training_mode_is_compared_in_evaluation_mode(rounded: str) -> None:
    """Initial running statistics leave 5 + 3 x unchanged; those of the batch would give x."""
    torch.manual_seed(0)
    layer = quantize_layer(nn.BatchNorm1d(4), {rounded: Integer(16, 8)}, "Integer")
    assert layer.training
    found = explain(layer, 5 + 3 * torch.randn(64, 4))
    assert found.result_db is not None
    assert found.result_db > 60
    result = found.results["data_out_0"].measured
    assert result is not None
    assert result.max is not None
    assert result.max > 10
    assert layer.running_mean.equal(torch.zeros(4))  # type: ignore[operator]


def test_large_tensors_are_processed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.from_numpy(np.random.default_rng(3).normal(0, 4, (40, 10))).float()
    values[3, 4] = math.nan
    for number_format in (LAB, MXInt(block_size=5, block_dim=-1)):
        at_once, parts = FormatFitMeter(number_format), FormatFitMeter(number_format)
        at_once.add(values)
        with monkeypatch.context() as patch:
            patch.setattr("chop.statistics.format_fit.CHUNK_SIZE", 7)
            parts.add(values)
        assert vars(parts.read()) == vars(at_once.read()) | {"sqnr_db": pytest.approx(at_once.read().sqnr_db)}
        assert parts.sample.equal(at_once.sample)


def test_an_unknown_node_is_reported_with_the_nearest_name() -> None:
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    with pytest.raises(UnknownNameError, match=r"^there is no node 'frist' in the graph; did you mean 'first'\?$"):
        explain_node(graph, "frist")


def test_a_layer_is_found_by_its_path() -> None:
    graph = annotated(nn.Sequential(nn.Sequential(nn.Linear(2, 1))), input=torch.randn(1, 2))
    assert explain_node(graph, "0.0").name == "_0_0"


def test_a_module_that_is_not_a_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Mixed is not a layer of the op table"):
        explain(Mixed())


def test_a_batch_is_required_if_the_graph_keeps_no_values() -> None:
    graph, _ = init_metadata_analysis_pass(MaseGraph(nn.Sequential(nn.ReLU())))
    x = {"input": torch.randn(2, 4)}
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": x, "add_value": False})
    with pytest.raises(ValueError, match="pass a batch as 'dummy_in'"):
        explain_analysis_pass(graph, {"node": "_0"})
    assert explain_analysis_pass(graph, {"node": "_0", "dummy_in": x})[1]["num_samples"] == 2


def test_the_number_of_samples_must_be_at_least_one() -> None:
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    with pytest.raises(ValueError, match="'num_samples' must be at least 1, got 0"):
        explain_analysis_pass(graph, {"node": "first", "num_samples": 0})
    with pytest.raises(ValueError, match="'num_samples' must be at least 1, got 0"):
        explain_node(graph, "first", [{"x": torch.randn(3, 6)}], num_samples=0)


def test_the_sentences_name_better_formats() -> None:
    """0.3 is 5/16; no weight is negative; a quarter of the range is not used."""
    sentences = explain(lab_linear(0.3, 1.5)).sentences()
    assert len(sentences) == 1
    assert sentences[0].startswith("weight: 2 top bits are never used; no value is negative: is_signed = false")
    assert "integer(8, 6) has the same width" in sentences[0]
    exact = quantize_layer(linear(1.0, -1.0, 0.5), {"weight": Integer(3, 1)}, "Integer")
    (sentence,) = explain(exact).sentences()
    assert sentence == "No value saturates, no bit is unused, and no narrower format reaches 30 dB."


@pytest.mark.slow
def test_the_text_fits_a_terminal() -> None:
    layer = quantize_layer(nn.Conv2d(64, 64, 3), dict.fromkeys(("data_in_0", "weight", "bias"), LAB), "Integer")
    text = str(explain(layer, torch.randn(4, 64, 8, 8)))
    assert max(len(line) for line in text.splitlines()) <= 105
    assert text.startswith("layer: conv2d (Conv2dInteger)\n")
    assert repr(explain(layer)) == str(explain(layer))
    # 4 x 6 x 6 positions of 64 channels, 64 x 3 x 3 MACs each
    assert f"{4 * 6 * 6 * 64 * 64 * 9:,} MACs" in text
