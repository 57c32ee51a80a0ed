"""Which methods run for which formats, and that together they are better than rounding to nearest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.passes.graph import quantize_transform_pass, recover_accuracy_transform_pass
from chop.passes.graph.transforms.low_bits.recover_accuracy import STEPS, LayerFormats
from samples import annotated

DOCS = Path(__file__).parents[5] / "docs" / "low_bits.md"
INTEGER = {"name": "integer", "weight_width": 4, "data_in_width": 8, "bias_name": "float"}
CHANNEL = {"weight_scale": "float", "weight_granularity": "channel"}
ROW = {"data_in_scale": "float", "data_in_granularity": "row"}


def network() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
    return model.eval(), torch.randn(200, 32) @ torch.randn(32, 32)


def quantized(model: nn.Module, x: Tensor, config: dict[str, Any]) -> MaseGraph:
    return quantize_transform_pass(annotated(model, input=x), {"by": "type", "linear": {"config": config}})[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (INTEGER, ["smooth", "clip", "adaround"]),
        ({**INTEGER, "weight_width": 8}, ["clip", "correct_bias"]),
        ({**INTEGER, "data_in_name": "float", **CHANNEL}, ["fold_batch_norm", "rotate", "gptq"]),
        ({**INTEGER, **ROW, **CHANNEL}, ["fold_batch_norm", "rotate", "gptq"]),
        (
            {**INTEGER, "data_in_scale": "float", "weight_width": 8, **CHANNEL},
            ["fold_batch_norm", "rotate", "clip", "correct_bias"],
        ),
        ({"name": "mxfp", "data_in_name": "float", "weight_element": "e2m1"}, ["fold_batch_norm", "gptq"]),
    ],
)
def test_the_formats_decide_which_passes_run(config: dict[str, Any], expected: list[str]) -> None:
    model, x = network()
    _, info = recover_accuracy_transform_pass(quantized(model, x, config), {"input_generator": [{"input": x}]})
    assert info["passes"] == expected
    assert {f"{name}_db" for name in expected} >= set(info["layers"]["_0"]) >= {f"{expected[-1]}_db"}


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({**ROW, "data_in_width": 4}, {"earlier_layers": False}),
        ({**ROW, "data_in_width": 8}, {}),
        ({"data_in_name": "float"}, {}),
        ({"data_in_scale": "float", "data_in_width": 4}, {}),
    ],
    ids=["4 bits per row", "8 bits per row", "float", "4 bits per tensor"],
)
def test_weights_do_not_make_up_for_the_noise_of_inputs(config: dict[str, Any], options: dict[str, Any]) -> None:
    formats = LayerFormats.of(quantized(*network(), {**INTEGER, **CHANNEL, **config}))
    assert [step.options for step in STEPS if step.name == "gptq" and step.applies(formats)] == [options]


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.rounds])
def test_the_output_in_any_format_is_no_worse_than_rounded_to_nearest(name: str) -> None:
    model, x = network()
    expected = model(x).detach()
    graph = quantized(model, x, {"name": name, "bias_name": "float"})
    before = float((graph.model.eval()(x).detach() - expected).square().sum())
    graph, _ = recover_accuracy_transform_pass(graph, {"input_generator": [{"input": x}]})
    after = float((graph.model.eval()(x).detach() - expected).square().sum())
    assert after <= 1.05 * before


@pytest.mark.slow
def test_passes_can_be_skipped_and_mistakes_are_reported() -> None:
    model, x = network()
    config = {**INTEGER, **ROW, **CHANNEL}
    given = {"input_generator": [{"input": x}]}
    _, info = recover_accuracy_transform_pass(quantized(model, x, config), {**given, "skip": ["rotate"]})
    assert info["passes"] == ["fold_batch_norm", "gptq"]
    assert info["renamed"] == {"_1": "_0"}
    _, info = recover_accuracy_transform_pass(quantized(model, x, INTEGER), {**given, "skip": ["adaround"]})
    assert info["passes"] == ["clip", "gptq"]
    with pytest.raises(ValueError, match="'skip': 'gpt' is not one of the passes; did you mean 'gptq'"):
        recover_accuracy_transform_pass(quantized(model, x, config), {**given, "skip": ["gpt"]})
    with pytest.raises(ValueError, match="recover_accuracy: no layer is quantised; run quantize before it"):
        recover_accuracy_transform_pass(annotated(model, input=x), given)


def test_the_documentation_has_the_table_of_passes() -> None:
    rows = [f"| `{step.name}` | {step.when} |" for step in STEPS]
    assert "\n".join(rows) in DOCS.read_text()
