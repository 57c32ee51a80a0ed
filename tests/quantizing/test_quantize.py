"""`chop.quantize`: a quantised copy of a model in memory."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import chop
from chop.formats.integer import Integer
from chop.nn.quantized import QuantizedLayer
from chop.registry import UnknownNameError
from quantizing.models import Decides, SkipCNN, mlp, rows


def formats_of(model: nn.Module) -> dict[str, str]:
    layers = (layer for layer in model.modules() if isinstance(layer, QuantizedLayer))
    return {name: str(number_format) for layer in layers for name, number_format in layer.formats.items()}


def one_layer(*weights: float) -> nn.Sequential:
    layer = nn.Linear(len(weights), 1, bias=False)
    layer.weight.data = torch.tensor([weights])
    return nn.Sequential(layer)


def test_int4_rounds_weights_to_sevenths_of_the_largest_and_leaves_inputs_alone() -> None:
    x = torch.eye(4) * 1.2345
    quantized = chop.quantize(one_layer(7.0, -3.4, 0.6, 0.4), "int4", x)  # the step is 7 / 7
    assert quantized(x).flatten().div(1.2345).allclose(torch.tensor([7.0, -3.0, 1.0, 0.0]))


def test_int8_fixes_the_scale_of_inputs_on_all_batches() -> None:
    batches = [torch.tensor([[1.0]]), torch.tensor([[12.7]]), torch.tensor([[2.0]])]  # the step is 12.7 / 127
    quantized = chop.quantize(one_layer(1.0), "int8", batches)
    x = torch.tensor([[0.04], [0.26], [100.0]])
    assert quantized(x).flatten().allclose(torch.tensor([0.0, 0.3, 12.7]))


def test_dynamic_presets_scale_each_row_by_its_own_largest_number() -> None:
    quantized = chop.quantize(one_layer(1.0, 1.0), "int8-dynamic", torch.ones(1, 2))
    x = torch.tensor([[127.0, 0.4], [1.27, 0.004]])  # steps 1 and 0.01
    assert quantized(x).flatten().allclose(torch.tensor([127.0, 1.27]))


@pytest.mark.parametrize(
    "spec",
    [
        "integer(width=4, scale=float, granularity=channel)",
        Integer(4, scale="float", granularity="channel"),
        {"name": "integer", "data_in_width": 4, "data_in_scale": "float", "data_in_granularity": "channel"}
        | {"bias_name": "float"},
        {"by": "type", "layers": {"config": "integer(width=4, scale=float, granularity=channel)"}},
    ],
    ids=["text", "Format", "config", "config of the pass"],
)
def test_a_format_can_be_given_in_several_ways(spec: Any) -> None:
    expected = "integer(4, scale=float, granularity=channel)"
    found = formats_of(chop.quantize(mlp(), spec, rows()))
    assert found == {"data_in_0": expected, "weight": expected, "bias": "float(32)"}


@pytest.mark.parametrize(
    "data",
    [
        torch.ones(8, 6),
        (torch.ones(8, 6), torch.zeros(8, dtype=torch.long)),
        {"input": torch.ones(8, 6), "labels": torch.zeros(8, dtype=torch.long)},
        [torch.ones(8, 6)],
        [(torch.ones(8, 6),)],
        ({"input": torch.ones(8, 6)} for _ in range(3)),
        DataLoader(TensorDataset(torch.ones(8, 6), torch.zeros(8)), batch_size=4),
        DataLoader(TensorDataset(torch.ones(8, 6)), batch_size=4),
    ],
    ids=["tensor", "pair", "dict", "list", "tuple of one", "generator of dicts", "DataLoader", "without labels"],
)
def test_data_can_be_a_batch_or_batches_of_any_form(data: Any) -> None:
    quantized = chop.quantize(mlp(), "int8", data)
    scale = next(layer for layer in quantized.modules() if isinstance(layer, QuantizedLayer)).scale_of("data_in_0")
    assert scale is not None
    assert scale.item() == pytest.approx(1 / 127)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["graph", "module"])
@pytest.mark.parametrize("training", [False, True])
def test_the_users_model_stays_as_it_was(style: Any, training: bool) -> None:
    model = SkipCNN().train(training)
    model.norm.eval()
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    quantized = chop.quantize(model, "int8", torch.randn(4, 1, 6, 6), style=style)
    quantized(torch.randn(4, 1, 6, 6)).sum().backward()
    torch.optim.SGD(quantized.parameters(), 0.1).step()
    assert type(model.first) is nn.Conv2d
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes == [m.training for m in modules_of(quantized)]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_pre_hooks for module in model.modules())


def modules_of(quantized: nn.Module) -> list[nn.Module]:
    return [quantized, *(quantized.get_submodule(name) for name in ("first", "second", "norm", "last"))]


@pytest.mark.slow
@pytest.mark.parametrize("style", ["graph", "module"])
def test_a_quantised_copy_learns_in_a_users_own_loop(style: Any) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 6)
    y = (x[:, 0] > 0).long()
    quantized = chop.quantize(mlp(), "mxfp4", x, style=style)
    optimizer = torch.optim.Adam(quantized.parameters(), 0.02)
    first = nn.functional.cross_entropy(quantized(x), y).item()
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(quantized(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < first / 4


@pytest.mark.slow
def test_a_model_that_cannot_be_captured_is_quantised_layer_by_layer_and_the_reason_is_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        quantized = chop.quantize(Decides(), "int8", rows(2, 4))
    (record,) = caplog.records
    message = (
        "Decides cannot be captured as a graph, so each of its layers is replaced by a quantised one instead: "
    )
    assert record.getMessage().startswith(message)
    assert record.getMessage().endswith("the code depends on the values of a tensor")
    assert isinstance(quantized, Decides)
    assert formats_of(quantized)["data_in_0"] == "integer(8, scale=float)"


def test_both_styles_compute_the_same(caplog: pytest.LogCaptureFixture) -> None:
    model, data = SkipCNN().eval(), [torch.randn(4, 1, 6, 6) for _ in range(3)]
    for spec in ("int8", "w4a8", "fp8-dynamic", "nvfp4"):
        graph, layers = (chop.quantize(model, spec, data, style=style) for style in ("graph", "module"))
        assert graph(data[0]).equal(layers(data[0]))


@pytest.mark.parametrize(
    "layer",
    [
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1),
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        nn.LSTM(16, 8),
        nn.GRU(16, 8),
        nn.Conv1d(5, 4, 3),
        nn.ConvTranspose1d(5, 4, 3),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_all_weights_of_a_layer_that_multiplies_are_rounded(layer: nn.Module) -> None:
    quantized = chop.quantize(nn.Sequential(layer), "int8", torch.randn(4, 5, 16))
    (found,) = (module for module in quantized.modules() if isinstance(module, QuantizedLayer))
    matrices = [name for name, parameter in layer.named_parameters() if parameter.dim() > 1]
    assert {str(found.formats[name]) for name in matrices} == {"integer(8, scale=float, granularity=channel)"}


def test_without_data_layers_are_replaced() -> None:
    model = mlp()
    quantized = chop.quantize(model, "w4a16")
    assert type(quantized) is nn.Sequential
    assert formats_of(quantized)["weight"] == "integer(4, scale=float, granularity=channel)"


def test_other_batch_sizes_than_that_of_the_capture_run() -> None:
    quantized = chop.quantize(SkipCNN(), "int8", torch.randn(4, 1, 6, 6))
    assert quantized(torch.randn(3, 1, 6, 6)).shape == (3, 5)


def test_a_learned_step_is_a_parameter_that_starts_from_data() -> None:
    spec = "integer(width=4, scale=learned)"
    quantized = chop.quantize(mlp(), spec, rows())
    scales = {name: scale for name, scale in quantized.named_parameters() if name.endswith("_scale")}
    assert sorted(scales) == [f"{i}.{role}_scale" for i in (0, 2) for role in ("data_in", "weight")]
    quantized(rows()[0][0]).sum().backward()
    assert all(scale.grad is not None for scale in scales.values())


class OnlyFunctions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


def test_mistakes_are_named() -> None:
    with pytest.raises(UnknownNameError, match="'int9' is neither a preset nor a format; did you mean 'int8'"):
        chop.quantize(mlp(), "int9", rows())
    with pytest.raises(ValueError, match=r"'scale' must be .*, got 'flot' .*did you mean 'float'"):
        chop.quantize(mlp(), "integer(width=4, scale=flot)", rows())
    with pytest.raises(ValueError, match="int8 fixes scales of activations on data: give batches as 'data'"):
        chop.quantize(mlp(), "int8")
    with pytest.raises(ValueError, match="OnlyFunctions has no layer that 'int4' is for"):
        chop.quantize(OnlyFunctions(), "int4", torch.ones(2))
    with pytest.raises(ValueError, match=r"a batch must be .*, got a tuple of 3: \(Tensor, Tensor, Tensor\)"):
        chop.quantize(mlp(), "int4", [(torch.ones(1, 6),) * 3])
    with pytest.raises(ValueError, match="data has no batches"):
        chop.quantize(mlp(), "int4", [])
    with pytest.raises(ValueError, match=r"data must be a batch .*, got int"):
        chop.quantize(mlp(), "int4", 3)
    with pytest.raises(ValueError, match=r"chop.quantize needs a torch.nn.Module, .*, got 'toy'"):
        chop.quantize("toy", "int4")  # type: ignore[arg-type]
