"""Forwards with a state, or with branches on the mode: the graph computes the same in each call, or is refused."""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.ir.graph.capture import CaptureError
from chop.passes.graph import load_mase_graph_interface_pass, save_mase_graph_interface_pass
from samples import annotated

WAYS = ["fx", pytest.param("export", marks=pytest.mark.slow)]


class Model(nn.Module):
    """Layers, buffers, and attributes of several kinds; its forward is one of the functions below."""

    count: Tensor
    mean: Tensor
    table: Tensor | None

    def __init__(self, function: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(4))
        self.calls, self.seen, self.table = 0, [0], None
        self.statistics: dict[str, Any] = {"calls": [1], "sum": torch.zeros(4)}
        self.last: Any = None
        self.kept: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Any:
        return self.function(self, self.linear(x))


def counts(model: Model, y: Tensor) -> Tensor:
    model.count += 1
    return y * model.count


def averages(model: Model, y: Tensor) -> Tensor:
    old = model.mean
    model.mean = 0.9 * model.mean + 0.1 * y.detach().mean(0)
    return y - model.mean + old


def averages_in_place(model: Model, y: Tensor) -> Tensor:
    factor = model.mean.sum()
    model.mean.mul_(0.9).add_(y.detach().mean(0))
    return y * factor + model.mean[:2].sum()


def writes_into_a_part(model: Model, y: Tensor) -> Tensor:
    model.mean[:2].copy_(y.detach().mean(0)[:2])
    return y + model.mean


def reads_what_a_layer_updates(model: Model, y: Tensor) -> Tensor:
    z: Tensor = model.norm(y) * (1 + model.norm.num_batches_tracked)  # type: ignore[operator]
    return z


def returns_the_old_state(model: Model, y: Tensor) -> Tensor:
    old = model.mean
    model.mean = old + y.detach().mean(0)
    return old


def check_calls(graph: MaseGraph, model: nn.Module, training: bool) -> None:
    """Compare outputs and states over three calls."""
    graph.model.train(training)
    model.train(training)
    for _ in range(3):
        x = torch.randn(5, 4)
        assert graph.model(x).allclose(model(x), atol=1e-6)
        for key, value in model.state_dict().items():
            assert graph.model.state_dict()[key].allclose(value, atol=1e-6), key


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "function",
    [
        counts,
        averages,
        averages_in_place,
        writes_into_a_part,
        reads_what_a_layer_updates,
        returns_the_old_state,
    ],
)
def test_buffers_change_from_call_to_call_as_in_the_model(function: Any, way: Any) -> None:
    model = Model(function)
    same = copy.deepcopy(model)
    graph = MaseGraph(model, example_inputs=torch.randn(3, 4), capture=way)
    check_calls(graph, same, training=False)
    check_calls(copy.deepcopy(graph), copy.deepcopy(same), training=True)


def counts_in_python(model: Model, y: Tensor) -> Tensor:
    model.calls += 1
    return y if model.calls > 3 else y * 2


def appends(model: Model, y: Tensor) -> Tensor:
    model.seen.append(1)
    return y * len(model.seen)


def changes_a_dict(model: Model, y: Tensor) -> Tensor:
    model.statistics["calls"][0] += 1
    factor: int = model.statistics["calls"][0]
    return y * factor


def keeps_the_first(model: Model, y: Tensor) -> Tensor:
    if model.table is None:
        model.table = y.detach().mean(0)
    return y + model.table


def adds_hooks(model: Model, y: Tensor) -> Tensor:
    model.norm.register_forward_hook(lambda module, given, output: output + 1)
    z: Tensor = model.norm(y)
    return z


def draws(model: Model, y: Tensor) -> Tensor:
    return y * random.choice([0.5, 1.5, 2.5, 3.5])


def asks_for_gradients(model: Model, y: Tensor) -> Tensor:
    return y if torch.is_grad_enabled() else y + 1


REFUSED = {
    counts_in_python: "changes 'calls' for its next call, .*: `model.calls [+]= 1`",
    appends: r"changes 'seen' for its next call, .*: `model.seen.append\(1\)`",
    changes_a_dict: "changes 'statistics' for its next call, .*`model.statistics.*",
    keeps_the_first: r"changes 'table' for its next call, .*: `model.table = y.detach\(\).mean\(0\)`",
    adds_hooks: "changes 'norm._forward_hooks' for its next call, .*: `model.norm.register_forward_hook",
    draws: "draws random numbers, .*: `return y [*] random.choice",
    asks_for_gradients: "something else without gradients, .*: `return y if torch.is_grad_enabled",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fx", "export"])
@pytest.mark.parametrize("function", REFUSED)
def test_a_state_that_a_graph_cannot_have_is_refused_with_its_line(function: Any, way: Any) -> None:
    with pytest.raises(CaptureError, match=REFUSED[function]) as error:
        MaseGraph(Model(function), example_inputs=torch.randn(3, 4), capture=way)
    assert "leaf_modules=(Class,)" in str(error.value)


def replaces_a_layer(model: Model, y: Tensor) -> Tensor:
    model.norm = nn.BatchNorm1d(4)
    z: Tensor = model.norm(y)
    return z


def replaces_a_parameter(model: Model, y: Tensor) -> Tensor:
    model.norm.weight = nn.Parameter(model.norm.weight * 2)
    z: Tensor = model.norm(y)
    return z


@pytest.mark.slow
@pytest.mark.parametrize(("function", "name"), [(replaces_a_layer, "norm"), (replaces_a_parameter, "norm.weight")])
def test_a_forward_that_replaces_layers_or_parameters_is_refused(function: Any, name: str) -> None:
    with pytest.raises(CaptureError, match=f"changes '{name}' for its next call, .*: `model.{name} = "):
        MaseGraph(Model(function), example_inputs=torch.randn(3, 4), capture="export")


def stores_an_activation(model: Model, y: Tensor) -> Tensor:
    model.last = y
    model.kept["last"] = y
    return y * 2


def makes_a_table(model: Model, y: Tensor) -> Tensor:
    if model.table is None:
        model.table = torch.arange(4.0)
    return y + model.table


@pytest.mark.parametrize("function", [stores_an_activation, makes_a_table])
def test_what_makes_no_difference_for_the_next_call_is_captured(function: Any) -> None:
    model = Model(function)
    before = digest(model)
    graph = MaseGraph(model)
    assert digest(model) == before
    check_calls(graph, copy.deepcopy(model), training=False)


def digest(value: Any, seen: set[int] | None = None) -> list[Any]:
    """Return the identities of all parts of a model, and the values of its tensors."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, Tensor):
        return [id(value), value.tolist()]
    parts = vars(value) if isinstance(value, nn.Module) else value
    if isinstance(parts, dict):
        return [(key, id(part), digest(part, seen)) for key, part in parts.items()]
    return [(id(part), digest(part, seen)) for part in parts] if isinstance(parts, list | tuple) else [id(parts)]


def changes_everything(error: type[BaseException] | None, model: Model, y: Tensor) -> Tensor:
    model.count += 1
    model.mean = y.detach().mean(0)
    model.linear.weight.data = model.linear.weight.data * 2
    model.calls += 1
    model.seen.append(3)
    model.statistics["sum"] += 1
    model.statistics["calls"].append(2)
    model.extra = 3  # type: ignore[assignment]
    model.last, model.table = y, None
    model.norm.eval()
    del model.function
    if error is not None:
        raise error
    return y


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_what_it_was_whatever_happens(error: Any, way: Any, training: bool) -> None:
    model = Model(lambda model, y: changes_everything(error, model, y)).train(training)
    x, before, state = torch.randn(3, 4), digest(model), torch.get_rng_state()
    with pytest.raises((CaptureError, KeyboardInterrupt)):
        MaseGraph(model, example_inputs=x, capture=way)
    assert digest(model) == before
    assert torch.get_rng_state().equal(state)


def branches(model: Model, y: Tensor) -> Tensor:
    if model.training:
        y = y + 100
    return y


def other_tensors(model: Model, y: Tensor) -> Tensor:
    return y + (model.mean if model.training else model.count)


def other_constants(model: Model, y: Tensor) -> Tensor:
    return y + (torch.tensor(1.0) if model.training else torch.tensor(2.0))


def other_layers(model: Model, y: Tensor) -> Any:
    return (y, model.norm(y)) if model.training else model.norm(y)


def drops_paths(model: Model, y: Tensor) -> Tensor:
    if not model.training:
        return y
    return y * torch.rand_like(y[:, :1]).round() / 0.5


def noise(model: Model, y: Tensor) -> Tensor:
    return y + torch.randn(4) if model.training else y


def freezes(model: Model, y: Tensor) -> Tensor:
    z: Tensor = model.norm.eval()(y)
    return z


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fx", "export"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "function", [branches, other_tensors, other_constants, other_layers, drops_paths, noise, freezes]
)
def test_a_graph_of_other_functions_in_training_is_for_evaluation_only(
    function: Any, way: Any, training: bool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    x, model = torch.randn(3, 4), Model(function).train(training)
    with caplog.at_level(logging.WARNING):
        graph = MaseGraph(model, example_inputs=x, capture=way)
    assert "its graph is for evaluation only" in caplog.text
    graph_of_file = annotated(model, x=x) if way == "fx" else graph
    save_mase_graph_interface_pass(graph_of_file, tmp_path)
    loaded, _ = load_mase_graph_interface_pass(MaseGraph(model, example_inputs=x, capture=way), tmp_path)
    for other in (graph, loaded, copy.deepcopy(graph)):
        assert other.model.eval()(x).equal(model.eval()(x))
        with pytest.raises(ValueError, match=r"for evaluation: .*test_state_and_modes.py:\d+: `"):
            other.model.train()(x)
    part = copy.deepcopy(graph).model.eval()
    part.training = True
    if function is not freezes:
        with pytest.raises(ValueError, match="depending on the mode of the model"):
            part(x)


def factor(model: Model, y: Tensor) -> Tensor:
    return y * (2 if model.training else 3) + int(model.training) - y * model.training


def flag_of_a_layer(model: Model, y: Tensor) -> Tensor:
    return F.dropout(model.norm(y), 0.5, model.norm.training)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("function", [factor, flag_of_a_layer])
def test_numbers_that_depend_on_the_mode_follow_it(function: Any, training: bool) -> None:
    model, x = Model(function).train(training), torch.randn(3, 4)
    graph = MaseGraph(model)
    for mode in (True, False, True):
        torch.manual_seed(1)
        expected = copy.deepcopy(model).train(mode)(x)
        torch.manual_seed(1)
        assert copy.deepcopy(graph).model.train(mode)(x).equal(expected)


def test_a_flag_of_a_layer_is_not_that_of_its_parent() -> None:
    graph = MaseGraph(Model(flag_of_a_layer))
    graph.model.train().get_submodule("norm").eval()
    x = torch.randn(3, 4)
    assert graph.model(x).equal(graph.model(x))


def test_a_model_with_layers_that_have_no_shape_yet_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"'0.weight' of Sequential has no shape yet: run the model on a batch first"
    ):
        MaseGraph(nn.Sequential(nn.LazyLinear(3)))


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\tb"])
def test_names_with_quotes_are_refused(name: str) -> None:
    model = nn.Sequential()
    model.add_module(name, nn.Linear(2, 2))
    with pytest.raises(ValueError, match="contains a quote, a backslash or a control character"):
        MaseGraph(model)


def test_names_that_python_replaces_are_refused() -> None:
    model = nn.Sequential()
    model.add_module("ﬁ", nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"letters that Python replaces by others \('fi'\)"):
        MaseGraph(model)


@pytest.mark.parametrize("name", ["it's", "a b", "é", "1"])
def test_other_names_are_captured(name: str) -> None:
    model, x = nn.Sequential(), torch.randn(3, 2)
    model.add_module(name, nn.Linear(2, 2))
    assert MaseGraph(model).model(x).equal(model(x))
