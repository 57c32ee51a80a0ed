"""What holds for every op in every format, as a layer, a function and a tensor method."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.ops import OPS
from chop.passes.graph import (
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
    verify_common_metadata_analysis_pass,
)
from samples import SAMPLES, Sample, annotated, samples

QUANTIZABLE = [name for name, op in OPS.items() if op.quantizable]
SPELLINGS = [(op, i) for op, spellings in samples().items() for i in range(len(spellings)) if op in QUANTIZABLE]


QUICK_FORMAT = "integer"
EVERY_OP = (QUICK_FORMAT, "mxfp")
"""Formats that are tested with every op: with fixed steps, and with blocks and a scale of them."""
EVERY_FORMAT = ("linear", "conv2d", "relu", "add", "matmul", "cat", "layer_norm", "embedding", "prelu", "lstm")
"""Ops that are tested in every format: as layers of both kinds, functions and methods, with all roles."""


class Case(NamedTuple):
    """A spelling of an op, in a format."""

    op: str
    number: int
    format_name: str


QuantizedCase = tuple[Case, Sample, MaseGraph]


def pairs(spellings: list[tuple[str, int]]) -> list[Any]:
    """Return spellings with formats; all except the first spelling in the quick format are slow."""
    return [
        pytest.param(
            Case(op, index, name),
            marks=() if (index, name) == (0, QUICK_FORMAT) else pytest.mark.slow,
            id=f"{op}-{index}-{name}",
        )
        for op, index in spellings
        for name in FORMATS
        if name in EVERY_OP or op in EVERY_FORMAT
    ]


PAIRS = pairs(SPELLINGS)
FIRST_IS_QUICK = [pytest.param(*each, marks=pytest.mark.slow if each[1] else ()) for each in SPELLINGS]
FIRST_PAIRS = pairs([(op, 0) for op in QUANTIZABLE])


def sample_of(op: str, index: int) -> Sample:
    return SAMPLES[op]()[index]


def quantized(op: str, sample: Sample, format_name: str) -> MaseGraph:
    graph = annotated(sample.model(), **sample.arguments())
    graph, info = quantize_transform_pass(graph, {"by": "type", op: {"config": {"name": format_name}}})
    assert len(info["quantized"]) == 1
    return graph


@pytest.fixture(scope="module")
def case(request: pytest.FixtureRequest) -> QuantizedCase:
    """A case with its quantised graph, which is made once for all tests."""
    seed(0)
    sample = sample_of(request.param.op, request.param.number)
    return request.param, sample, quantized(request.param.op, sample, request.param.format_name)


def seed(number: int) -> None:
    torch.default_generator.manual_seed(number)  # `torch.manual_seed` keeps a stack trace for each kind of GPU


def run(model: torch.nn.Module, arguments: dict[str, Tensor]) -> Any:
    seed(1)
    return model(**arguments)


def test_every_quantizable_op_has_samples() -> None:
    missing = set(QUANTIZABLE) - set(SAMPLES)
    assert not missing, f"add calls of {', '.join(sorted(missing))} to SAMPLES in tests/samples.py"


@cache
def of_original(op: str, number: int) -> tuple[torch.Size, torch.dtype, list[str], list[str]]:
    """Return shape, dtype, names of nodes and names of the state of a spelling without formats."""
    sample = sample_of(op, number)
    graph = annotated(sample.model(), **sample.arguments())
    result = run(graph.model, sample.arguments())
    return result.shape, result.dtype, [node.name for node in graph.fx_graph.nodes], list(graph.model.state_dict())


@pytest.mark.parametrize("case", PAIRS, indirect=True, scope="module")
def test_shape_dtype_names_and_state_are_kept_and_the_class_says_op_and_format(case: QuantizedCase) -> None:
    (op, number, format_name), sample, graph = case
    got = run(graph.model, sample.arguments())
    assert got.isfinite().all()
    names = [node.name for node in graph.fx_graph.nodes]
    assert (got.shape, got.dtype, names, list(graph.model.state_dict())) == of_original(op, number)
    verify_common_metadata_analysis_pass(graph)
    (target,) = targets(graph)
    if isinstance(target, QuantizedLayer):
        assert type(target).__name__ == type(sample.module).__name__ + FORMATS[format_name].__name__
        assert isinstance(target, type(sample.module))
    else:
        assert target.__name__ == f"{op}_{format_name}"


def targets(graph: MaseGraph) -> list[QuantizedLayer | QuantizedCall]:
    return [meta.quantized for meta in graph.metas() if meta.quantized is not None]


@pytest.mark.parametrize(("op", "index"), FIRST_IS_QUICK)
def test_format_float_is_bit_identical_to_pytorch(op: str, index: int) -> None:
    sample = sample_of(op, index)
    plain = copy.deepcopy(sample.model())
    graph = quantized(op, sample, "float")
    for training in (False, True, True, False):  # running statistics must change in the same way
        plain.train(training)
        graph.model.train(training)
        assert run(graph.model, sample.arguments()).equal(run(plain, sample.arguments()))
    for key, value in plain.state_dict().items():
        assert graph.model.state_dict()[key].equal(value)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "index"), SPELLINGS)
def test_saved_graphs_load_without_the_model(op: str, index: int, tmp_path: Path) -> None:
    sample = sample_of(op, index)
    graph = quantized(op, sample, QUICK_FORMAT)
    save_mase_graph_interface_pass(graph, tmp_path)
    loaded, _ = load_mase_graph_interface_pass(None, tmp_path)
    graph.model.eval()
    loaded.model.eval()
    assert run(loaded.model, sample.arguments()).equal(run(graph.model, sample.arguments()))
    assert loaded.model.state_dict().keys() == graph.model.state_dict().keys()


@pytest.mark.parametrize("op", ["dropout", "view", "embedding_indices"])
def test_movement_dropout_and_indices_are_never_quantised(op: str) -> None:
    if op == "embedding_indices":
        (indices, *_) = OPS["embedding"].operands
        assert indices.role is None
    else:
        assert not OPS[op].quantizable


def test_only_the_first_of_several_results_is_rounded_and_their_names_are_kept() -> None:
    sample = Sample("max()", None, lambda x, *_: torch.max(x, 1), torch.tensor([[0.3, 2.0], [1.6, -1.0]]))
    graph = annotated(sample.model(), **sample.arguments())
    config = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 6, "data_out_width": 4}
    config["data_out_frac_width"] = 1
    graph, _ = quantize_transform_pass(graph, {"by": "type", "max": {"config": config}})
    result = run(graph.model, sample.arguments())
    assert result.values.tolist() == [2.0, 1.5]
    assert result.indices.tolist() == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("case", FIRST_PAIRS, indirect=True, scope="module")
def test_copies_and_pickles_compute_the_same(case: QuantizedCase) -> None:
    _, sample, graph = case
    expected = run(graph.model, sample.arguments())
    for again in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        torch.testing.assert_close(run(again.model, sample.arguments()), expected, rtol=0, atol=0, equal_nan=True)
        assert again.fx_graph is not graph.fx_graph
        assert [type(target) for target in targets(again)] == [type(target) for target in targets(graph)]


def by_torch_func(model: torch.nn.Module, arguments: dict[str, Tensor], tangents: dict[str, Tensor]) -> Any:
    """Return the gradients of the sum of a result by what is in `tangents`, and the derivative along these."""
    values = dict(model.named_parameters()) | arguments
    leaves = {name: values[name].detach() for name in tangents}

    def total(leaves: dict[str, Tensor]) -> Tensor:
        state = {name: leaves.get(name, each.clone()) for name, each in model.state_dict().items()}
        seed(1)
        inputs = {name: leaves.get(name, each.clone()) for name, each in arguments.items()}
        result: Tensor = functional_call(model, state, (), inputs)
        return result.sin().sum()

    return torch.func.grad(total)(leaves), torch.func.jvp(total, (leaves,), (tangents,))[1]


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy: which random numbers torch draws depends on what it differentiates."""
    model = copy.deepcopy(model)
    for module in model.modules():
        for name in {"p", "dropout"} & vars(module).keys():
            setattr(module, name, 0.0)
    return model


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("case", PAIRS, indirect=True, scope="module")
def test_gradients_reach_every_parameter_and_input_and_torch_func_agrees(case: QuantizedCase) -> None:
    _, _, graph = case
    (target,) = targets(graph)
    for training in (False, True) if isinstance(target, QuantizedLayer) else (False,):  # functions have no mode
        check_derivatives(case, training)


def check_derivatives(case: QuantizedCase, training: bool) -> None:
    """Compare a backward pass with the derivatives of `torch.func`, if torch has rules for the op."""
    (op, *_), sample, graph = case
    model, arguments = without_dropout(graph.model).train(training), sample.arguments()
    used = {name: each for name, each in list(arguments.items())[: len(sample.inputs)] if each.is_floating_point()}
    leaves = dict(model.named_parameters()) | {name: each.clone().requires_grad_() for name, each in used.items()}
    result = run(model, arguments | {name: leaves[name] for name in used})
    gradients = torch.autograd.grad(result.sin().sum(), list(leaves.values()))
    assert all(gradient.isfinite().all() for gradient in gradients)
    tangents = {name: torch.randn_like(each) for name, each in leaves.items()}
    if op == "embedding":  # only the backward pass of torch leaves out the row of padding
        tangents = {name: each.index_fill(0, torch.tensor(0), 0.0) for name, each in tangents.items()}
    try:
        found, derivative = by_torch_func(model, arguments, tangents)
    except (RuntimeError, NotImplementedError):
        plain = without_dropout(sample.model()).train(training)
        tangents = {name: tangents[name] for name in leaves if not name.endswith("_scale")}
        with pytest.raises((RuntimeError, NotImplementedError)):  # torch has no rule for it
            by_torch_func(plain, arguments, tangents)
        return
    torch.testing.assert_close(list(found.values()), list(gradients))
    if op == "prelu":  # torch has two derivatives at 0
        return
    along = sum((gradient * tangents[name]).sum() for name, gradient in zip(leaves, gradients, strict=True))
    torch.testing.assert_close(derivative, along, rtol=1e-3, atol=1e-4)
