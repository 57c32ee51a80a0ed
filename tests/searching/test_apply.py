"""Applying trials of an earlier search."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import chop
from chop.config import SearchConfig
from chop.config.search import SearchTable, SpaceTable
from chop.files import read_toml
from chop.runs import Experiment
from chop.runs.weights import load_model
from chop.searching.search import search

pytestmark = pytest.mark.slow


def read(run: Path, name: str = "summary.json") -> Any:
    return json.loads((run / name).read_text())


def test_an_applied_trial_has_the_accuracy_of_the_trial(toy_search: SearchConfig) -> None:
    log = read(search(toy_search), "search/log.json")
    trial = [each for each in log["trials"] if each["front"]][-1]
    folder = search(replace(toy_search, apply=trial["number"], name="applied"))
    assert (folder.name, folder.parents[1].name) == ("transform", "applied")
    assert (folder / "transformed_ckpt").is_dir()
    after = read(folder.parents[1])["test"]["after"]
    assert after["accuracy"] == pytest.approx(trial["metrics"]["accuracy"], abs=1e-9)


def test_a_trial_with_a_method_is_what_transform_makes_of_it(toy_search: SearchConfig) -> None:
    seed = {**toy_search.search.search_space.seed["seq_blocks_0"]["config"], "weight_width": 3}
    space = SpaceTable(seed={"default": {"config": seed}}, method=("nearest", "gptq", "clip"))
    strategy = replace(toy_search.search.strategy, setup={"sampler": "brute_force", "n_trials": 12})
    config = replace(toy_search, search=SearchTable(space, strategy), name="methods", max_drop=100.0)
    run = search(config)
    found, trials = read(run), read(run, "search/log.json")["trials"]
    drop = found["plain"]["accuracy"] - found["best"]["accuracy"]  # on test rows, as toy_search measures
    assert found["budget"]["test"]["points"] == pytest.approx(100 * drop)
    by_method: dict[str, list[dict[str, Any]]] = {}
    for trial in trials:
        if trial["baseline"] is None:
            by_method.setdefault(trial["params"]["[method]/method"], []).append(trial)
    assert sorted(by_method) == ["clip", "gptq", "nearest"]
    for method, of_method in by_method.items():
        folder = search(replace(toy_search, search=config.search, apply=of_method[0]["number"], name=method))
        passes = read_toml(folder.parents[1] / "run.toml")["passes"]
        assert list(passes) == ["quantize", *([] if method == "nearest" else [method])]
        after = read(folder.parents[1])["test"]["after"]
        assert after["accuracy"] == pytest.approx(of_method[0]["metrics"]["accuracy"], abs=1e-9)


def test_a_search_is_found_by_the_name_of_its_study(toy_search: SearchConfig) -> None:
    first = search(replace(toy_search, study="first"))
    other = SpaceTable(
        seed={"seq_blocks_2": {"config": toy_search.search.search_space.seed["seq_blocks_0"]["config"]}}
    )
    search(replace(toy_search, study="second", search=replace(toy_search.search, search_space=other)))
    number = read(first)["best"]["trial"]
    # The options of the run take precedence over these: the trial was made with them.
    folder = search(
        SearchConfig(
            model="toy", dataset="toy_tiny", project_dir=toy_search.project_dir, study="first", apply=number
        )
    )
    assert read(folder.parents[1])["test"]["after"]["accuracy"] == pytest.approx(read(first)["best"]["accuracy"])
    with pytest.raises(ValueError, match="found no search of study 'third' with a trial to apply"):
        search(replace(toy_search, study="third", apply=0))


@pytest.mark.parametrize("number", [-1, 1000])
def test_an_unknown_trial_is_reported_with_the_trials_of_the_front(toy_search: SearchConfig, number: int) -> None:
    run = search(toy_search)
    front = [str(each["number"]) for each in read(run, "search/log.json")["trials"] if each["front"]]
    before = sorted(toy_search.project_dir.iterdir())
    with pytest.raises(ValueError, match=rf"has no complete trial {number}; its front is {', '.join(front)}$"):
        search(replace(toy_search, apply=number))
    assert sorted(toy_search.project_dir.iterdir()) == before


def test_applying_a_trial_needs_a_search(toy_search: SearchConfig) -> None:
    with pytest.raises(ValueError, match="found no search with a trial to apply"):
        search(replace(toy_search, apply=0))


def test_a_corrupt_log_is_reported(toy_search: SearchConfig) -> None:
    run = search(toy_search)
    (run / "search" / "log.json").write_text('{"trials"')
    with pytest.raises(ValueError, match=r"log\.json is corrupt"):
        search(replace(toy_search, apply=0))


def test_the_best_trial_is_fine_tuned_and_keeps_its_formats(toy_search: SearchConfig) -> None:
    number = read(search(replace(toy_search, name="widths")))["best"]["trial"]
    folder = search(replace(toy_search, apply=number, finetune=2, name="tuned"))
    assert folder.name == "tuned"
    assert not any(path.name.startswith("widths_") for path in folder.parent.iterdir())
    summary = read(folder)
    assert (summary["action"], summary["epochs"]) == ("train", 2)
    model = load_model(str(folder), "auto", Experiment.load(toy_search).model)
    kinds = {name: type(module).__name__ for name, module in model.named_modules()}
    assert kinds["seq_blocks.0"] == kinds["seq_blocks.4"] == "LinearInteger"
    assert kinds["seq_blocks.2"] == "Linear"
    assert summary["test"]["accuracy"] > 0.5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"learning_rate": 0.02}, "'learning_rate' has no effect without 'finetune'"),
        (
            {"apply": 0, "n_trials": 9},
            "'n_trials' has no effect with 'apply', which uses the options of the search",
        ),
    ],
)
def test_options_that_a_search_does_not_use_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        chop.search("toy", "toy_tiny", **options)


def test_fine_tuning_takes_the_learning_rate_of_the_command_or_else_of_the_search(
    toy_search: SearchConfig,
) -> None:
    assert read_toml(search(replace(toy_search, finetune=1)) / "run.toml")["learning_rate"] == 1e-3
    search(replace(toy_search, learning_rate=0.02))
    again = replace(toy_search, apply=0, finetune=1)
    assert read_toml(search(again) / "run.toml")["learning_rate"] == 0.02
    assert read_toml(search(replace(again, learning_rate=0.03)) / "run.toml")["learning_rate"] == 0.03
