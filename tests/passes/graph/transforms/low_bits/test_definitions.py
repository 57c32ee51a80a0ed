"""Equalisation, SmoothQuant and AWQ against the formulas of their papers, written out in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.passes.graph import equalize_transform_pass, quantize_transform_pass, smooth_transform_pass
from samples import annotated

INT8 = {"name": "integer", "data_in_scale": "float", "weight_scale": "float", "bias_name": "float"}
W4 = {
    "name": "integer",
    "data_in_name": "float",
    "bias_name": "float",
    "weight_width": 4,
    "weight_scale": "float",
    "weight_granularity": "channel",
}


def normalised_inputs() -> tuple[nn.Sequential, Tensor]:
    """Return a normalisation with unequal channels before a linear layer, and inputs, in float64."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 6)).double().eval()
    with torch.no_grad():
        model.get_parameter("0.weight").copy_(torch.tensor([1.0, 9.0, 0.2, 3.0, 1.0, 25.0, 0.5, 1.0]))
    return model, torch.randn(64, 8).double()


def smoothed(model: nn.Sequential, x: Tensor, config: dict[str, Any], **options: Any) -> tuple[Any, dict[str, Any]]:
    graph = annotated(model, input=x)
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    graph, info = smooth_transform_pass(graph, {"input_generator": [{"input": x}], **options})
    return graph.model, info["layers"]


def without_mean(factors: list[float]) -> list[float]:
    """Return factors whose geometric mean is 1: a common factor changes nothing."""
    mean = math.prod(factors) ** (1 / len(factors))
    return [factor / mean for factor in factors]


def test_equalisation_is_that_of_the_paper() -> None:
    """s = sqrt(r1 r2) / r2 for each channel; the first layer is divided by it, the second is multiplied."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    first, bias, second = (model.get_parameter(n).detach().tolist() for n in ("0.weight", "0.bias", "2.weight"))
    graph, _ = equalize_transform_pass(annotated(model, input=torch.randn(5, 3).double()), {"iterations": 1})
    new = graph.model.state_dict()
    for channel in range(4):
        r1 = max(abs(weight) for weight in first[channel])
        r2 = max(abs(row[channel]) for row in second)
        s = math.sqrt(r1 * r2) / r2
        found = new["0.weight"][channel].tolist()
        assert found == pytest.approx([weight / s for weight in first[channel]], rel=1e-12)
        assert float(new["0.bias"][channel]) == pytest.approx(bias[channel] / s, rel=1e-12)
        found = new["2.weight"][:, channel].tolist()
        assert found == pytest.approx([row[channel] * s for row in second], rel=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.5, 1.0])
def test_smoothing_is_that_of_the_paper(exponent: float) -> None:
    """s = max|X|^a / max|W|^(1 - a) for each channel; X is divided by it, W is multiplied (SmoothQuant)."""
    model, x = normalised_inputs()
    rows, weight = model[0](x).tolist(), model.get_parameter("1.weight").tolist()
    factors = without_mean(
        [
            max(abs(row[j]) for row in rows) ** exponent / max(abs(row[j]) for row in weight) ** (1 - exponent)
            for j in range(8)
        ]
    )
    changed, _ = smoothed(model, x, INT8, exponent=exponent)
    old, new = model.state_dict(), changed.state_dict()
    for j, factor in enumerate(factors):
        column = new["1.weight"][:, j].tolist()
        assert column == pytest.approx([row[j] * factor for row in weight], rel=1e-9)
        assert float(new["0.weight"][j]) == pytest.approx(float(old["0.weight"][j]) / factor, rel=1e-9)


def test_awq_is_that_of_the_paper() -> None:
    """s = mean|X|^a, with the a of 0, 0.1, ..., 1 for which round(W s) X / s differs least from W X."""
    model, x = normalised_inputs()
    rows, weight = model[0](x).detach(), model.get_parameter("1.weight").detach()
    errors = []
    for step in range(11):
        means = [sum(abs(value) for value in column) / len(x) for column in rows.t().tolist()]
        factor = torch.tensor(without_mean([mean ** (step / 10) for mean in means])).double()
        scaled = weight * factor
        steps = scaled.abs().amax(1, keepdim=True) / 7
        rounded = (scaled / steps).round() * steps
        errors.append(float(((rows / factor) @ rounded.t() - rows @ weight.t()).square().sum()))
    best = errors.index(min(errors)) / 10
    assert 0 < best <= 1
    changed, report = smoothed(model, x, W4, statistic="mean")
    assert report["_0"]["exponent"] == pytest.approx(best)
    signal = float((rows @ weight.t() + model.get_parameter("1.bias").detach()).square().sum())
    assert report["_0"]["after_db"] == pytest.approx(10 * math.log10(signal / min(errors)), abs=1e-6)
    torch.testing.assert_close(
        nn.functional.linear(changed.get_submodule("0")(x), changed.get_parameter("1.weight")), rows @ weight.t()
    )
