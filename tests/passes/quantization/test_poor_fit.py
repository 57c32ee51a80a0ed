"""Warnings about fraction bits that do not suit the values."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from chop.passes.graph import quantize_transform_pass
from samples import annotated


def warnings(
    caplog: pytest.LogCaptureFixture, weight: list[float], width: int, frac_width: int | str | None
) -> list[str]:
    """Quantise a layer with these weights and return the warnings about them."""
    layer = nn.Linear(len(weight), 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weight]))
    config = {"name": "integer", "data_in_name": "float", "weight_width": width, "weight_frac_width": frac_width}
    graph = annotated(nn.Sequential(layer), input=torch.ones(2, len(weight)))
    caplog.clear()
    quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_saturating_values_are_reported_with_a_better_format(caplog: pytest.LogCaptureFixture) -> None:
    # integer(3, 4) holds -4/16 to 3/16, so 3 of 4 values saturate; integer(3, 0) holds -4 to 3.
    (message,) = warnings(caplog, [3.0, -2.0, 1.0, 0.0625], 3, 4)
    assert message.startswith(
        "quantize '_0': 75% of the values of weight saturate in integer(3, 4); integer(3, 0) has "
    )


def test_values_that_become_zero_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    # The step of integer(8, 1) is 1/2, so that everything up to 1/4 becomes 0.
    (message,) = warnings(caplog, [0.2, 0.1, -0.05, 0.5], 8, 1)
    assert message.startswith("quantize '_0': 75% of the values of weight become 0 in integer(8, 1); integer(8, ")
    assert message.endswith(" dB instead of 8 dB")  # 10 log10((0.04 + 0.01 + 0.0025 + 0.25) / 0.0525) = 7.6


@pytest.mark.parametrize(
    ("weight", "width", "frac_width"),
    [
        ([3.0, -2.0, 1.0, 0.0625], 3, "auto"),  # the best that 3 bits can do, although 0.0625 becomes 0
        ([0.5, 0.25, -0.5, 0.125], 8, 4),  # exact
        ([0.0, 0.0], 8, 4),
    ],
)
def test_formats_without_a_better_one_are_not_reported(
    caplog: pytest.LogCaptureFixture, weight: list[float], width: int, frac_width: int | str
) -> None:
    assert warnings(caplog, weight, width, frac_width) == []


def test_operands_of_a_node_are_judged_by_their_own_formats(caplog: pytest.LogCaptureFixture) -> None:
    # In steps of 1/4, unsigned numbers of 4 bits reach from 0 to 3.75, and signed ones from -2 to 1.75.
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.5, 2.0], [3.0, torch.nan]]))
        layer.bias.copy_(torch.tensor([-2.0, 1.75]))
    config = {
        "name": "integer",
        "data_in_width": 4,
        "data_in_frac_width": 2,
        "data_in_is_signed": False,
        "weight_is_signed": False,
    }
    graph = annotated(nn.Sequential(layer), input=torch.tensor([[5.0, 3.5], [torch.inf, 3.0]]))
    caplog.clear()
    quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert message.startswith("quantize '_0': 33% of the values of data_in_0 saturate in integer(4, 2")


def test_many_operands_are_summarised(caplog: pytest.LogCaptureFixture) -> None:
    graph = annotated(nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))), input=torch.randn(2, 4))
    config = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 0}
    quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(messages) == 5
    assert messages[-1].startswith("quantize: the same holds for ")
