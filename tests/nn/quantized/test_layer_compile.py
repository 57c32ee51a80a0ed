"""torch.compile of quantised models."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import Tensor

from chop.formats import FORMATS
from chop.passes.graph import quantize_transform_pass
from samples import tiny_graph

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="there is no C compiler"),
    pytest.mark.filterwarnings("ignore"),  # the compiler warns about its own code
]


@pytest.fixture(autouse=True)
def _forget_what_was_compiled() -> None:
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def rounded() -> tuple[Tensor, dict[str, Tensor]]:
    """A tensor, and the results of a compiled function that rounds it to every format: one run of the compiler."""
    torch.manual_seed(0)
    formats = {name: FORMATS[name]() for name in FORMATS}
    x = torch.randn(16, 64) * 2.0 ** torch.randint(-12, 12, (16, 1))
    compiled = torch.compile(lambda x: {name: each.quantize(x) for name, each in formats.items()}, fullgraph=True)
    return x, compiled(x)


@pytest.mark.parametrize("name", FORMATS)
def test_compiled_quantisation_is_bit_identical(name: str, rounded: tuple[Tensor, dict[str, Tensor]]) -> None:
    x, results = rounded
    torch.testing.assert_close(results[name], FORMATS[name]().quantize(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["integer", "mxfp"])
@pytest.mark.parametrize("training", [False, True])
def test_a_compiled_model_agrees(name: str, training: bool) -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), {"by": "type", "default": {"config": {"name": name}}})
    graph.model.train(training)
    compiled = torch.compile(graph.model, fullgraph=True)
    x = torch.randn(8, 16)
    result = compiled(x)
    torch.testing.assert_close(result, graph.model(x), rtol=1e-3, atol=1 / 16)  # one step of integer(8, 4)
    if training:
        result.sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in graph.model.parameters())
