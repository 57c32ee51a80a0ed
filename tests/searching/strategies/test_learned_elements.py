"""Widths per channel and element that are learned together with the weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chop.config import Granularity, SearchConfig, WidthTrainingOptions
from chop.config.search import MetricTable, SpaceTable
from chop.cost import bitops
from chop.dataset import Rows
from chop.formats.mixed_integer import MixedInteger
from chop.hardware.prepare import prepare
from chop.ir import MaseGraph
from chop.nn.learned_widths import (
    CostTerm,
    LearnedInput,
    LearnedLayer,
    LearnedParameter,
    round_to_fraction,
)
from chop.nn.quantized import QuantizedLayer
from chop.ops import OPS
from chop.passes.graph import load_mase_graph_interface_pass, save_mase_graph_interface_pass
from chop.searching.search import search
from chop.searching.space import read_space
from chop.searching.strategies.learned import _starting_widths
from chop.searching.strategies.learned_training import (
    StartingWidths,
    WidthTraining,
    learnable,
    steps_of_trials,
)
from samples import annotated

SHORT = WidthTrainingOptions(
    steps=60, batch_size=64, width_learning_rate=0.1, weight_learning_rate=1e-3, beta_to=30, finetune_steps=5
)
SEED: dict[str, Any] = {"name": "integer", "data_in_width": 6, "weight_width": 6}


def layer_by_hand() -> LearnedLayer:
    """Return y = [[6/8, 4/8], [0, -2/8]] x, with inputs of 0 to 3 in 4 bits and of 0 to 1 in 4 bits."""
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.tensor([[0.75, 0.5], [0.0, -0.25]])
    data = LearnedInput(torch.zeros(2), torch.tensor([3.0, 1.0]), 4, (2,))
    return LearnedLayer(layer, OPS["linear"], 1, data, 4, "element")


def test_the_gradient_of_ebops_equals_that_computed_by_hand() -> None:
    """6, 4 and 2 eighths have 3, 3 and 2 bits down to the eighth: (3 + 0) x 4 + (3 + 2) x 4 = 32."""
    layer = layer_by_hand()
    cost = layer.cost("ebops")
    cost.backward()
    assert cost.item() == 32
    assert layer.weight.fraction.grad is not None
    assert layer.data.fraction.grad is not None
    assert layer.weight.fraction.grad.tolist() == [
        [4, 4],
        [0, 4],
    ]  # the bits of the input; a pruned weight costs nothing
    assert layer.data.fraction.grad.tolist() == [3, 5]  # the bits of all weights of the input


def test_the_gradient_of_look_up_tables_equals_that_computed_by_hand() -> None:
    """6 = 8 - 2 has two signed digits, 4 and -2 have one: 2 adders of 4 + 1 bits, and 1 + 1 of 4 + 1."""
    layer = layer_by_hand()
    cost = layer.cost("lut")
    cost.backward()
    assert cost.item() == 20
    assert layer.weight.fraction.grad is not None
    assert layer.data.fraction.grad is not None
    assert layer.weight.fraction.grad.flatten().tolist() == pytest.approx([5 / 3, 5 / 3, 0, 5 / 3])
    assert layer.data.fraction.grad.tolist() == [2, 2]


@pytest.mark.parametrize("term", ["ebops", "lut"])
def test_each_bit_of_a_bias_costs_one(term: CostTerm) -> None:
    """5 eighths have 3 bits, 0.02 becomes 0, which is exact in a format without bits."""
    layer = layer_by_hand()
    without = layer.cost(term).item()
    layer.bias = LearnedParameter(nn.Parameter(torch.tensor([0.6, 0.02])), 4, (2,))
    cost = layer.cost(term)
    cost.backward()
    assert cost.item() == without + 3
    assert layer.bias.fraction.grad is not None
    assert layer.bias.fraction.grad.tolist() == [1, 0]
    assert layer(torch.zeros(1, 2)).tolist() == [[0.625, 0]]
    number_format = layer.formats()["bias"]
    assert (number_format.widths, number_format.frac_widths) == ((4, 0), (3, 0))


def test_one_more_bit_halves_the_rounding_error() -> None:
    x = torch.tensor([0.3, 0.6, 2.5], requires_grad=True)
    fraction = torch.tensor([2.3], requires_grad=True)  # rounded to 2 bits
    y = round_to_fraction(x, fraction)
    assert y.tolist() == [0.25, 0.5, 2.5]
    (y * torch.tensor([1.0, -2.0, 3.0])).sum().backward()
    assert fraction.grad is not None
    assert fraction.grad.item() == pytest.approx(math.log(2) * (0.05 - 2 * 0.1), rel=1e-5)
    assert x.grad is not None
    assert x.grad.tolist() == [1, -2, 3]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def images() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def training(model: nn.Module, options: WidthTrainingOptions = SHORT) -> tuple[WidthTraining, Tensor]:
    """Return a run whose labels are the predictions of the model, and the rows that it learns from."""
    torch.manual_seed(1)
    x = torch.randn(300, 6) if isinstance(model[1], nn.Linear) else torch.randn(100, 2, 4, 4)  # type: ignore[index]
    with torch.no_grad():
        rows = Rows(x, model.eval()(x).argmax(1))
    graph = annotated(model, input=x[:10])
    widths = {meta.node.name: StartingWidths(6, 6) for meta in graph.annotated_metas() if learnable(meta)}
    return WidthTraining(graph, lambda rows: {"input": rows}, rows, widths, options), x


@pytest.mark.slow
def test_learning_rates_fall_along_half_a_cosine() -> None:
    run, _ = training(network(), replace(SHORT, steps=5, decay_to=0.2))
    rates = []
    for step in range(1, 6):
        run.graph_at(step)
        rates.append([group["lr"] for group in run._optimizer.param_groups])
    shares = [1, 0.2 + 0.8 * (2 + math.sqrt(2)) / 4, 0.6, 0.2 + 0.8 * (2 - math.sqrt(2)) / 4, 0.2]
    assert rates == pytest.approx(np.outer(shares, (SHORT.width_learning_rate, SHORT.weight_learning_rate)))


def quantized_layers(graph: MaseGraph) -> Mapping[str, QuantizedLayer]:
    return {n: layer for n, layer in graph.model.named_modules() if isinstance(layer, QuantizedLayer)}


def counted_ebops(graph: MaseGraph) -> int:
    """Count the products of linear layers one by one, from the integers in binary."""
    total = 0
    for layer in quantized_layers(graph).values():
        data = layer.formats["data_in_0"]
        assert isinstance(data, MixedInteger)
        for row in layer.integers("weight")[0].tolist():
            for integer, width in zip(row, data.widths, strict=True):
                total += len(f"{abs(integer):b}".strip("0")) * max(0, width - data.is_signed)
    return total


@pytest.mark.slow
def test_ebops_equal_an_independent_count() -> None:
    run, _ = training(network(), replace(SHORT, finetune_steps=0))
    for step in (1, 40):
        graph = run.graph_at(step)
        counted = sum(bitops(meta, "ebops") or 0 for meta in graph.annotated_metas()) / 10
        assert counted == counted_ebops(graph) > 0
        assert counted <= run.cost().item()  # which does not know of zeros at the end of a weight


@pytest.mark.slow
def test_fine_tuning_lowers_the_loss_with_the_same_widths() -> None:
    def losses_and_widths(finetune_steps: int) -> tuple[float, list[Any]]:
        model = network()
        run, x = training(model, replace(SHORT, finetune_steps=finetune_steps))
        graph = run.graph_at(30)
        loss = nn.functional.cross_entropy(graph.model(x), model(x).argmax(1))
        formats = [layer.formats[name] for layer in quantized_layers(graph).values() for name in layer.formats]
        return loss.item(), [(each.widths, each.frac_widths) for each in formats if isinstance(each, MixedInteger)]

    (before, widths), (after, kept) = losses_and_widths(0), losses_and_widths(200)
    assert kept == widths
    assert after < 0.9 * before


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["channel", "element"])
@pytest.mark.parametrize("make", [network, images])
def test_every_point_equals_its_integer_program_and_survives_a_file(
    make: Any, granularity: Granularity, tmp_path: Path
) -> None:
    run, x = training(make(), replace(SHORT, granularity=granularity))
    for step in (1, 30, 60):
        graph = run.graph_at(step)
        assert prepare(graph, strict=False).num_differences(x.numpy()) == 0
    save_mase_graph_interface_pass(graph, {"save_dir": tmp_path / "graph"})
    loaded, _ = load_mase_graph_interface_pass(None, {"load_dir": tmp_path / "graph"})
    with torch.no_grad():
        assert loaded.model.eval()(x).equal(graph.model.eval()(x))
    shapes = {tuple(layer.formats["weight"].shape) for layer in quantized_layers(graph).values()}  # type: ignore[attr-defined]
    assert all((shape[1:].count(1) == len(shape) - 1) == (granularity == "channel") for shape in shapes)


@pytest.mark.slow
def test_a_growing_penalty_prunes_weights_and_lowers_the_cost() -> None:
    run, _ = training(network())
    costs = []
    for step in (1, 30, 60):
        graph = run.graph_at(step)
        costs.append(counted_ebops(graph))
    assert costs[0] > costs[1] > costs[2]
    widths = [w for layer in quantized_layers(graph).values() for w in layer.formats["weight"].widths]  # type: ignore[attr-defined]
    assert 0 in widths
    assert max(widths) > 1


@pytest.mark.slow
def test_a_run_can_go_back_and_leaves_the_model_unchanged() -> None:
    model = network()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    run, x = training(model)
    first = run.graph_at(20).model(x)
    run.graph_at(40)
    assert run.graph_at(20).model(x).equal(first)
    assert all(value.equal(before[key]) for key, value in model.state_dict().items())


@pytest.mark.slow
def test_a_trial_does_not_depend_on_the_trials_before_it() -> None:
    options = replace(SHORT, weight_learning_rate=0.3)  # the ranges of activations grow
    run, x = training(network(), options)
    for step in (10, 30):
        run.graph_at(step)
    alone, _ = training(network(), options)
    assert run.graph_at(60).model(x).equal(alone.graph_at(60).model(x))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"name": "integer", "data_in_width": [3, 5]}, StartingWidths(5, 5)),
        (
            {"name": "integer", "data_in_width": "same as weight_width", "weight_width": [2, 4]},
            StartingWidths(4, 4),
        ),
        ({"name": "integer"}, StartingWidths(8, 8)),
    ],
)
def test_learning_starts_with_the_largest_widths_of_the_space(
    config: dict[str, Any], expected: StartingWidths
) -> None:
    graph = annotated(network(), input=torch.zeros(2, 6))
    space = read_space(SpaceTable(seed={"default": {"config": config}}), graph.annotated_metas())
    assert set(_starting_widths(space.units).values()) == {expected}


def test_trials_are_evenly_spaced_steps() -> None:
    assert list(steps_of_trials(100, 4)) == [25, 50, 75, 100]
    assert list(steps_of_trials(2, 10)) == [1, 2]


@pytest.fixture
def element_search(toy_search: SearchConfig) -> SearchConfig:
    setup = {"granularity": "element", "steps": 40, "batch_size": 64, "n_trials": 4, "learning_rate": 0.1}
    setup |= {"finetune_steps": 5}
    strategy = replace(
        toy_search.search.strategy,
        name="learned",
        setup=setup,
        hw_runner={"bitops": {"convention": "ebops"}},
        metrics={"accuracy": MetricTable(), "lut": MetricTable()},
    )
    space = SpaceTable(seed={"default": {"config": SEED}})
    return replace(toy_search, search=replace(toy_search.search, search_space=space, strategy=strategy))


@pytest.mark.slow
def test_a_search_traces_a_front_whose_trials_can_be_applied(element_search: SearchConfig) -> None:
    run = search(replace(element_search, max_drop=100.0))
    assert list(json.loads((run / "summary.json").read_text())["budget"]) == ["validation", "held back", "test"]
    trials = json.loads((run / "search" / "log.json").read_text())["trials"]
    assert [trial["params"] for trial in trials] == [{"[learned]/step": step} for step in (10, 20, 30, 40)]
    luts = [trial["metrics"]["lut"] for trial in trials]
    assert luts == sorted(luts, reverse=True)
    folder = search(replace(element_search, apply=2))
    summary = json.loads((folder.parents[1] / "summary.json").read_text())
    assert summary["test"]["after"]["accuracy"] == pytest.approx(trials[2]["metrics"]["accuracy"], abs=1e-9)
    graph, _ = load_mase_graph_interface_pass(None, {"load_dir": folder / "transformed_ckpt"})
    assert {f.name for layer in quantized_layers(graph).values() for f in layer.formats.values()} == {
        "mixed_integer"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "setup", "message"),
    [
        ({"name": "mxfp"}, {}, "learns the widths of format 'integer', but 'seq_blocks_0' may have others"),
        (SEED, {"granularity": "tensor"}, "'granularity' must be 'channel' or 'element', got 'tensor'"),
        (SEED, {"weight_learning_rate": 0.0}, "'weight_learning_rate' must be above 0, got 0.0"),
        (SEED, {"finetune_steps": -1}, "'finetune_steps' must be at least 0, got -1"),
        (SEED, {"steps": 0}, "'steps' must be at least 1, got 0"),
        (SEED, {"learning_rate": 0.0}, "'width_learning_rate' must be above 0, got 0.0"),
        (SEED, {"decay_to": 0.0}, "'decay_to' must be above 0 and at most 1, got 0.0"),
        (
            SEED,
            {"beta_from": 2.0, "beta_to": 1.0},
            "'beta_from' must be above 0 and at most 'beta_to', got 2.0 and",
        ),
    ],
)
def test_mistakes_are_explained(
    element_search: SearchConfig, seed: dict[str, Any], setup: dict[str, Any], message: str
) -> None:
    table = element_search.search
    strategy = replace(table.strategy, setup={**table.strategy.setup, **setup})
    space = SpaceTable(seed={"default": {"config": seed}})
    with pytest.raises(ValueError, match=message):
        search(replace(element_search, search=replace(table, strategy=strategy, search_space=space)))
