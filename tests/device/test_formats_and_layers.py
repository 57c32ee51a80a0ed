"""Formats and quantised layers on another device: the same values as on the CPU, and nothing that waits."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS, Format, parameters
from chop.formats.integer import Integer
from contracts.test_quantized_ops import QUANTIZABLE, quantized, sample_of
from device.other import NAME, counted
from samples import annotated


def variants() -> dict[str, Format]:
    """Return every format, and each again with every other value of a parameter that can be searched."""
    found: dict[str, Format] = {}
    for name, cls in FORMATS.items():
        found[name] = cls()
        for field in parameters(cls):
            for value in field.metadata.get("choices", ()) or ():
                try:
                    found[f"{name}({field.name}={value})"] = cls(**{field.name: value})
                except ValueError:
                    continue
    found["integer(groups)"] = Integer(4, scale="float", granularity="group", group_size=8)
    return found


VARIANTS = variants()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_format_rounds_as_on_the_cpu_without_waiting(name: str) -> None:
    number_format, x = VARIANTS[name], torch.randn(6, 40)
    torch.manual_seed(0)
    expected = number_format.quantize(x)
    there = x.to(NAME)
    number_format.quantize(there)  # constants of a format are copied to a device once
    torch.manual_seed(0)
    with counted() as counts:
        rounded = number_format.quantize(there)
    assert rounded.device.type == NAME
    assert rounded.cpu().equal(expected)
    assert not counts
    leaf = there.detach().requires_grad_()
    with counted() as counts:
        number_format(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.cpu().equal(torch.ones_like(x))
    assert not counts


def moved(arguments: dict[str, Tensor], device: str) -> dict[str, Any]:
    return {name: tensor.to(device) for name, tensor in arguments.items()}


WITHOUT_KERNEL = ("lstm", "gru", "rnn")
"""Ops that the test device cannot run: it has no fused cells."""
OTHER_KERNEL = ("scaled_dot_product_attention", "multihead_attention", "transformer")
"""Ops for which torch chooses another kernel off the CPU, with other last bits."""
LAYERS = [(op, "integer") for op in QUANTIZABLE if op not in WITHOUT_KERNEL] + [
    (op, name) for op in ("linear", "conv2d", "matmul", "add") for name in FORMATS if name != "integer"
]


def run(model: nn.Module, inputs: dict[str, Any]) -> tuple[Any, Counter[str]]:
    """Return the result and what waited, after a first call that may round weights."""
    model(**inputs)
    torch.manual_seed(0)
    with counted() as counts:
        result = model(**inputs)
    return result, counts


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("op", "name"), LAYERS)
def test_a_quantised_layer_computes_as_on_the_cpu_and_waits_no_more_than_in_float(
    op: str, name: str, training: bool
) -> None:
    sample = sample_of(op, 0)
    graph = quantized(op, sample, name)
    in_float = copy.deepcopy(annotated(sample.model(), **sample.arguments()).model).train(training).to(NAME)
    graph.model.train(training)
    there = copy.deepcopy(graph.model).to(NAME)
    expected, _ = run(graph.model, sample.arguments())
    _, allowed = run(in_float, moved(sample.arguments(), NAME))
    result, counts = run(there, moved(sample.arguments(), NAME))
    assert result.device.type == NAME
    error = 1e-5 if op.startswith(OTHER_KERNEL) else 0.0
    torch.testing.assert_close(result.cpu(), expected, rtol=error, atol=error, equal_nan=True)
    assert counts == allowed
