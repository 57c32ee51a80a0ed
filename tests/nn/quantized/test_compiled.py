"""`compile = true`: torch.compile makes the functions that round, and the results are the same."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import chop
from chop.formats import FORMATS, Format
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP
from chop.nn.quantized import QuantizedCall, QuantizedLayer, compile_rounding, compiled
from chop.nn.quantized.compiled import round_compiled
from chop.passes.graph import quantize_transform_pass
from samples import annotated, tiny_graph

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the compiler warns about its own code
]
TESTED = FORMATS if os.environ.get("CHOP_TEST_COMPILE") else ("integer", "mxfp", "ternary")
"""All formats with `make test-compile`."""
INTEGERS = {"name": "integer", "data_in_width": 6, "weight_width": 5}


@pytest.fixture(autouse=True)
def backend() -> Iterator[Callable[[Any], None]]:
    """Sets the backend of torch.compile; at first one that traces everything and compiles nothing."""

    def use(name: Any) -> None:
        torch._dynamo.reset()
        compiled._compiled.cache_clear()
        compiled._failed.clear()
        torch.compiler.set_default_backend(name)

    use("aot_eager")
    yield use
    use(None)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == compiled.__name__]


def tensors(dtype: torch.dtype) -> list[Tensor]:
    """Return tensors of several sizes, also not multiples of a block, with numbers of all magnitudes."""
    torch.manual_seed(0)
    shapes = ((16, 64), (5, 40), (3, 7, 20))
    return [(torch.randn(shape) * 2.0 ** torch.randint(-12, 12, (*shape[:-1], 1))).to(dtype) for shape in shapes]


@pytest.mark.parametrize("name", TESTED)
def test_every_format_rounds_to_the_same_bits_with_one_graph(name: str, caplog: pytest.LogCaptureFixture) -> None:
    number_format = FORMATS[name]()
    for x in (*tensors(torch.float32), tensors(torch.bfloat16)[0]):
        leaf = x.clone().requires_grad_()
        result = round_compiled(leaf, number_format, None)
        assert result.equal(number_format.quantize(x))
        result.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.equal(torch.ones_like(x))
        with torch.no_grad():
            assert round_compiled(x, number_format, None).equal(result)
    assert not warnings_in(caplog)  # a graph break or one compilation too many would be an error, and so a warning


GRANULARITIES: dict[str, Format] = {
    **{f"integer, {each}": Integer(4, scale="float", granularity=each) for each in ("channel", "row", "group")},
    "integer, floor": Integer(4, rounding="floor"),
    "mxfp, tiles": MXFP(block_size=(4, 8)),
    "integer, learned": Integer(4, scale="learned"),
}


@pytest.mark.parametrize("name", GRANULARITIES)
def test_every_granularity_rounds_to_the_same_bits(name: str, caplog: pytest.LogCaptureFixture) -> None:
    number_format, x = GRANULARITIES[name], tensors(torch.float32)[0]
    scale = torch.tensor(0.3) if number_format.has_learned_scale else None
    assert round_compiled(x, number_format, scale).equal(number_format(x, scale))
    assert not warnings_in(caplog)


def test_a_format_is_compiled_twice_for_all_batch_sizes(backend: Callable[[Any], None]) -> None:
    compilations = []

    def counting(graph: fx.GraphModule, examples: list[Tensor]) -> Any:
        compilations.append(graph)
        return graph

    backend(counting)
    for rows in range(2, 20):
        x = torch.randn(rows, 32)
        assert round_compiled(x, Integer(6), None).equal(Integer(6).quantize(x))
    assert len(compilations) == 2


def test_an_error_of_the_compiler_is_one_warning_and_the_results_are_those_without_it(
    backend: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(graph: fx.GraphModule, examples: list[Tensor]) -> Any:
        raise RuntimeError("there is no C++ compiler")

    backend(broken)
    x = torch.randn(4, 32)
    for number_format in (Integer(6), Integer(5), FORMATS["fp8"]()):
        for _ in range(2):
            assert round_compiled(x, number_format, None).equal(number_format.quantize(x))
    (message,) = warnings_in(caplog)
    assert "cannot compile format 'integer(6, 3)', which runs without it" in message
    assert "there is no C++ compiler" in message


def test_an_error_of_the_format_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="complex"):
        round_compiled(torch.ones(4, 4, dtype=torch.complex64), Integer(6), None)


def test_formats_that_round_at_random_are_not_compiled() -> None:
    number_format, x = Integer(4, rounding="stochastic"), torch.randn(8, 32)
    results = []
    for function in (round_compiled, lambda x, number_format, scale: number_format(x, scale)):
        torch.manual_seed(0)
        results.append(function(x, number_format, None))
    assert results[0].equal(results[1])
    assert compiled._compiled.cache_info().currsize == 0


class Ops(nn.Module):
    """A linear layer, a convolution, a product of matrices and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.query, self.key = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).flatten(2).transpose(1, 2)
        y = F.scaled_dot_product_attention(self.query(y), self.key(y), y)
        return torch.matmul(y.transpose(1, 2), y)


IMAGES = torch.randn(2, 3, 5, 5)


def quantised(name: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    config = {"config": {"name": name}}
    ops = dict.fromkeys(("conv2d", "linear", "matmul", "scaled_dot_product_attention"), config)
    graph, info = quantize_transform_pass(annotated(Ops(), x=IMAGES), {"by": "type", **options, **ops})
    assert len(info["quantized"]) == 5
    return graph.model


def step(function: Callable[[Tensor], Tensor], model: nn.Module, training: bool) -> list[Tensor]:
    """Return the result of a forward pass, and in training the gradients."""
    model.train(training)
    model.zero_grad()
    if not training:
        with torch.no_grad():
            return [function(IMAGES)]
    result = function(IMAGES)
    result.square().mean().backward()
    return [result.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def same(found: list[Tensor], expected: list[Tensor]) -> None:
    """Check that results have the same bits; gradients are sums whose last bits depend on where tensors begin."""
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", TESTED)
def test_layers_and_calls_with_compiled_rounding_give_the_same_bits(
    name: str, training: bool, backend: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    backend("eager")
    expected = quantised(name)
    model = quantised(name, compile=True)
    same(step(model, model, training), step(expected, expected, training))
    assert name == "float" or compiled._compiled.cache_info().misses >= 1
    assert not warnings_in(caplog)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", TESTED)
def test_a_whole_model_compiles_without_a_graph_break_to_the_same_bits(name: str, training: bool) -> None:
    model = quantised(name)
    expected = step(model, model, training)
    same(step(torch.compile(model, backend="eager", fullgraph=True), model, training), expected)


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", TESTED)
def test_the_default_compiler_rounds_to_the_same_bits(
    name: str, backend: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    backend(None)
    number_format = FORMATS[name]()
    for x in tensors(torch.float32):
        assert round_compiled(x, number_format, None).equal(number_format.quantize(x))
    assert not warnings_in(caplog)


def test_compiled_rounding_stays_with_copies_and_is_not_written_to_files() -> None:
    model = quantised("integer", compile=True)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert all(flags(copied))
    assert not any(flags(quantised("integer")))


def flags(model: Any) -> list[bool]:
    """Return whether the rounding of each quantised layer and call is compiled."""
    calls = [node.target.is_compiled for node in model.graph.nodes if isinstance(node.target, QuantizedCall)]
    return calls + [layer.is_compiled for layer in model.modules() if isinstance(layer, QuantizedLayer)]


def test_an_existing_model_can_be_compiled() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), {"by": "type", "linear": {"config": INTEGERS}})
    x = torch.randn(8, 16)
    graph.model.eval()
    expected = graph.model(x)
    compile_rounding(graph.model)
    assert graph.model(x).equal(expected)
    assert all(flags(graph.model))


def test_commands_give_the_same_results_with_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    passes = {"quantize": {"by": "type", "linear": {"config": INTEGERS}}}
    seed = {
        "default": {"config": {"name": ["NA"]}},
        "linear": {"config": {"name": ["integer"], "weight_width": [3]}},
    }
    search = {"search_space": {"setup": {"by": "type"}, "seed": seed}, "strategy": {"name": "optuna"}}
    results = []
    for compiles in (False, True):
        options: dict[str, Any] = {
            "accelerator": "cpu",
            "project_dir": tmp_path / str(compiles),
            "compile": compiles,
        }
        transformed = chop.transform("toy", "toy_tiny", passes=passes, **options)
        tested = chop.train("toy", "toy_tiny", load_name=transformed.folder.path, max_epochs=1, **options)
        swept = chop.sweep("toy", "toy_tiny", formats="integer", widths="4", **options)
        searched = chop.search("toy", "toy_tiny", search=search, n_trials=1, **options)
        log = json.loads((searched.folder.path / "search" / "log.json").read_text())
        results.append(
            [
                transformed.summary["test"],
                tested.summary["test"],
                swept.summary["rows"],
                [trial["metrics"] for trial in log["trials"]],
            ]
        )
        assert bool(compiled._compiled.cache_info().currsize) == compiles
    assert results[0] == results[1]
