"""Trained configurations, compared with a training loop written out here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from chop.config import SearchConfig, TrainConfig
from chop.config.search import MetricTable, SearchTable, SpaceSetup, SpaceTable, StrategyTable
from chop.models import get_model
from chop.passes.graph import quantize_transform_pass
from chop.runs import Experiment
from chop.runs.weights import load_model
from chop.searching.evaluation.problem import QAT, Metrics
from chop.searching.evaluation.qat import QATProblem
from chop.searching.search import search
from chop.searching.spec import SearchSpec

WIDTHS = {"name": "integer", "data_in_width": [4, 8], "data_in_frac_width": ["auto"], "weight_width": [3, 8]}
SHAPES = [[8, 8], [6], [8, 6, 5]]


def table(**space: Any) -> SearchTable:
    seed = {"linear": {"config": {**WIDTHS, "weight_frac_width": ["auto"]}}}
    strategy = StrategyTable(
        sw_runner={"basic_train": {"max_epochs": 3, "num_samples": 300, "learning_rate": 0.01}},
        setup={"sampler": "random", "n_trials": 10},
        metrics={"accuracy": MetricTable(), "bitops": MetricTable()},
    )
    return SearchTable(SpaceTable(QAT, SpaceSetup("type"), seed, **space), strategy)


@pytest.fixture
def config(train_config: TrainConfig) -> SearchConfig:
    return SearchConfig(
        model="jsc-mlp",
        dataset="toy_tiny",
        model_options={"hidden": [8, 8]},
        batch_size=64,
        seed=3,
        accelerator="cpu",
        project_dir=train_config.project_dir,
        search=table(training={"learning_rate": [0.02, 0.005], "batch_size": [32, 64]}),
    )


def problem_of(config: SearchConfig) -> QATProblem:
    made = SearchSpec.read(config).problem()
    assert isinstance(made, QATProblem)
    return made


def read(run: Path, name: str = "summary.json") -> Any:
    return json.loads((run / name).read_text())


def by_hand(
    config: SearchConfig, hidden: list[int], layer: Mapping[str, Any], rate: float, batch: int, epochs: int = 3
) -> tuple[float, float]:
    """Return accuracy and loss of an untrained model after training it with all linear layers in one format."""
    experiment = Experiment.load(config)
    torch.manual_seed(config.seed)
    model = get_model("jsc-mlp", dataset_info=experiment.data.dataset_info, options={"hidden": hidden})
    graph = experiment.with_model(model).annotated_graph()
    if layer:
        graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": layer}})
    train, val = experiment.data.splits.train, experiment.data.splits.val
    optimizer = torch.optim.Adam(graph.model.parameters(), lr=rate, fused=True)
    for epoch in range(epochs):
        graph.model.train()
        order = torch.randperm(300, generator=torch.Generator().manual_seed(config.seed * 1_000_003 + epoch))
        for some in order.split(batch):
            optimizer.zero_grad()
            F.cross_entropy(graph.model(train.features[some]), train.labels[some]).backward()
            optimizer.step()
    graph.model.eval()
    with torch.no_grad():
        logits = graph.model(val.features)
    right = (logits.argmax(dim=1) == val.labels).double().mean().item()
    return right, F.cross_entropy(logits.double(), val.labels).item()


def uniform(problem: QATProblem, data: int, weight: int, **parts: Any) -> dict[str, Any]:
    layer = {
        "name": "integer",
        "data_in_width": data,
        "data_in_frac_width": "auto",
        "weight_width": weight,
        "weight_frac_width": "auto",
    }
    return {unit.name: layer for unit in problem.space.units} | {f"[{key}]": value for key, value in parts.items()}


@pytest.mark.slow
def test_a_trial_is_trained_like_the_loop_written_by_hand(config: SearchConfig) -> None:
    problem = problem_of(config)
    options = {"learning_rate": 0.02, "batch_size": 32}
    configuration = uniform(problem, 4, 8, training=options)
    found = problem.measure(configuration)
    accuracy, loss = by_hand(config, [8, 8], configuration["seq_blocks_1"], 0.02, 32)
    assert found["accuracy"] == accuracy
    assert found["loss"] == pytest.approx(loss, rel=1e-6)
    assert found["epochs"] == 3
    macs = 4 * 8 + 8 * 8 + 8 * 2
    assert found["bitops"] == 4 * 8 * macs
    other = problem.measure(uniform(problem, 4, 8, training={"learning_rate": 0.005, "batch_size": 64}))
    _, expected = by_hand(config, [8, 8], configuration["seq_blocks_1"], 0.005, 64)
    assert other["loss"] == pytest.approx(expected, rel=1e-6)
    assert other["loss"] != found["loss"]


@pytest.mark.slow
def test_with_max_drop_half_of_the_validation_rows_are_held_back_from_trained_trials(config: SearchConfig) -> None:
    run = search(replace(config, max_drop=60.0, n_trials=2))
    found = read(run)
    assert [each["predictions"] for each in found["budget"].values()] == [40, 40, 200]
    measured = found["plain"]["accuracy"] - found["best"]["accuracy"]
    assert found["budget"]["validation"]["points"] == pytest.approx(100 * measured)
    with pytest.raises(ValueError, match="only one of the two holds back validation rows, for max_drop"):
        search(replace(config, resume=True))


@pytest.mark.slow
def test_each_shape_of_the_model_has_its_own_layers(config: SearchConfig) -> None:
    problem = problem_of(replace(config, model_options={}, search=table(model={"hidden": SHAPES})))
    assert [unit.name for unit in problem.space.units] == [f"seq_blocks_{number}" for number in (1, 3, 5, 7)]
    for hidden in SHAPES:
        configuration = uniform(problem, 8, 3, model={"hidden": tuple(hidden)})
        widths = [4, *hidden, 2]
        names = [f"seq_blocks_{2 * number + 1}" for number in range(len(widths) - 1)]
        assert [unit.name for unit in problem.units(configuration)] == names
        found = problem.measure(configuration)
        assert found["bitops"] == 8 * 3 * sum(a * b for a, b in pairwise(widths))
        assert found["loss"] == pytest.approx(
            by_hand(config, hidden, configuration["seq_blocks_1"], 0.01, 64)[1], rel=1e-6
        )


@pytest.mark.slow
def test_the_original_model_is_trained_unless_it_was_loaded(config: SearchConfig, tmp_path: Path) -> None:
    accuracy, loss = by_hand(config, [8, 8], {}, 0.02, 32)
    found = problem_of(config).measure_original()
    assert found["accuracy"] == accuracy
    assert found["loss"] == pytest.approx(loss, rel=1e-6)
    experiment = Experiment.load(config)
    torch.save(experiment.model.state_dict(), tmp_path / "untrained.pt")
    loaded = problem_of(replace(config, load_name=tmp_path / "untrained.pt")).measure_original()
    val = experiment.data.splits.val
    with torch.no_grad():
        logits = experiment.model.eval()(val.features)
    assert loaded["loss"] == pytest.approx(F.cross_entropy(logits, val.labels).item(), rel=1e-6)
    assert loaded["bitops"] == 32 * 32 * (4 * 8 + 8 * 8 + 8 * 2)


@pytest.mark.slow
def test_a_trial_can_be_pruned_after_each_epoch(config: SearchConfig) -> None:
    problem = problem_of(config)
    assert problem.rungs == {1: problem.num_rows, 2: problem.num_rows}
    asked: list[tuple[int, float]] = []

    def should_continue(costs: Metrics, step: int, accuracy: float) -> bool:
        asked.append((step, accuracy))
        return step < 2

    configuration = uniform(problem, 8, 8, training={"learning_rate": 0.02, "batch_size": 32})
    found = problem.measure(configuration, should_continue)
    expected = [by_hand(config, [8, 8], configuration["seq_blocks_1"], 0.02, 32, epochs)[0] for epochs in (1, 2)]
    assert asked == list(enumerate(expected, 1))
    assert (found["epochs"], found["accuracy"]) == (2, expected[1])
    complete = problem.measure(configuration)  # a pruned result is not cached
    assert complete["epochs"] == 3
    asked.clear()
    assert problem.measure(configuration, should_continue) == found  # from the cached result
    assert asked == list(enumerate(expected, 1))


@pytest.mark.slow
def test_applying_a_trial_gives_the_same_weights_each_time(config: SearchConfig) -> None:
    searched = replace(
        config, model_options={}, search=table(training={"batch_size": [32]}, model={"hidden": SHAPES})
    )
    run = search(replace(searched, n_trials=6))
    trials = read(run, "search/log.json")["trials"]
    done = [each for each in trials if each["state"] == "complete" and each["baseline"] is None]
    trial = next(each for each in done if each["params"]["[model]/hidden"] != "[8, 8]")
    folders = [search(replace(searched, apply=trial["number"])) for _ in range(2)]
    options = {"hidden": json.loads(trial["params"]["[model]/hidden"])}
    data = Experiment.load(config).data
    plain = get_model("jsc-mlp", dataset_info=data.dataset_info, options=options)
    first, second = (load_model(str(each / "transformed_ckpt"), "auto", plain).state_dict() for each in folders)
    assert all(torch.equal(first[key], second[key]) for key in first)
    model = load_model(str(folders[0] / "transformed_ckpt"), "auto", plain).eval()
    with torch.no_grad():
        right = (model(data.splits.val.features).argmax(dim=1) == data.splits.val.labels).double().mean().item()
    assert right == pytest.approx(trial["metrics"]["accuracy"], abs=1e-9)
    summary = read(folders[0].parents[1])
    assert summary["parameters"] == sum(each.numel() for each in plain.parameters())
    tuned = read(search(replace(searched, apply=trial["number"], finetune=1)))
    assert (tuned["action"], tuned["epochs"], tuned["parameters"]) == ("train", 1, summary["parameters"])


@pytest.mark.parametrize("name", ["ilp", "sensitivity", "learned"])
def test_strategies_without_training_are_refused(config: SearchConfig, name: str) -> None:
    strategy = replace(config.search.strategy, name=name, setup={})
    with pytest.raises(
        ValueError, match=f"strategy '{name}' does not train configurations.* use strategy 'optuna'"
    ):
        SearchSpec.read(replace(config, search=replace(config.search, strategy=strategy)))
