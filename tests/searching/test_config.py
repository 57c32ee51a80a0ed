"""The `[search]` table: example files run, and every error in a file is reported."""

from __future__ import annotations

import json
import logging
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from chop.cli import main
from chop.config import SearchConfig
from chop.config.search import SearchTable, StrategyTable
from chop.config.settings import read_settings
from chop.searching.spec import SearchSpec
from chop.searching.strategies.optuna import OptunaStrategy
from chop.toml import write_toml

EXAMPLES = Path(__file__).parents[2] / "configs" / "examples"
SMALL = ["--data-option", "num_rows=3000", "--n-trials", "6", "--accelerator", "cpu"]


def example(name: str) -> dict[str, Any]:
    return tomllib.loads((EXAMPLES / name).read_text())


def write(table: dict[str, Any], folder: Path) -> Path:
    file = folder / "search.toml"
    file.write_text(write_toml(table))
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_metrics"),
    [
        ("jsc_toy_search.toml", 3),
        ("jsc_toy_search_by_type.toml", 2),
        ("jsc_toy_search_methods.toml", 2),
        ("jsc_mlp_search_qat.toml", 2),
        ("jsc_mlp_search_int8.toml", 2),
    ],
)
def test_an_example_runs(name: str, num_metrics: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["search", "--config", str(EXAMPLES / name), *SMALL, "--project-dir", str(out)]) == 0
    (run,) = out.iterdir()
    log = json.loads((run / "search" / "log.json").read_text())
    assert len(log["metrics"]) == num_metrics
    assert sum(each["baseline"] is None for each in log["trials"]) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("summed", [True, False])
def test_a_search_runs_with_one_summed_objective_and_with_several(summed: bool, tmp_path: Path) -> None:
    table = example("jsc_toy_search_by_type.toml")
    table["search"]["strategy"]["setup"] |= {"sum_scaled_metrics": summed, "n_jobs": 1, "n_trials": 8}
    out = tmp_path / "out"
    assert main(["search", "--config", str(write(table, tmp_path)), *SMALL[:2], "--project-dir", str(out)]) == 0
    (run,) = out.iterdir()
    best = json.loads((run / "summary.json").read_text())["best"]
    trials = json.loads((run / "search" / "log.json").read_text())["trials"]
    own = [each["metrics"] for each in trials if each["baseline"] is None]
    if summed:
        sums = [each["accuracy"] - 0.2 * each["average_bitwidth"] for each in own]
        assert best["accuracy"] - 0.2 * best["average_bitwidth"] == pytest.approx(max(sums))
    else:
        allowed = json.loads((run / "summary.json").read_text())["plain"]["accuracy"] - 0.01
        good = [each["average_bitwidth"] for each in own if each["accuracy"] >= allowed - 1e-12]
        assert good
        assert best["average_bitwidth"] == min(good)


@pytest.mark.slow
def test_seeds_of_the_other_kind_are_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = example("jsc_toy_search_by_type.toml")
    for by, unused, units in (
        ("type", "seq_blocks_2", ["seq_blocks_2", "seq_blocks_5", "seq_blocks_8"]),
        ("name", "linear", ["seq_blocks_2"]),
    ):
        table["search"]["search_space"]["setup"]["by"] = by
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            space = SearchSpec.read(read(write(table, tmp_path))).problem().space
        assert [unit.name for unit in space.units] == units
        assert f"setup.by is '{by}', so these seeds are not used: {unused}" in caplog.text


def read(file: Path) -> SearchConfig:
    (config,) = read_settings("search", {"config": file, "data_options": {"num_rows": 500}}).configs()
    assert isinstance(config, SearchConfig)
    return config


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("tpe", "tpe"),
        ("TPE", "tpe"),
        ("Random", "random"),
        ("nsgaii", "nsga2"),
        ("NSGAII", "nsga2"),
        ("NSGAIII", "nsga3"),
        ("nsga-ii", "nsga2"),
        ("QMC", "qmc"),
        ("bruteforce", "brute_force"),
        ("brute-force", "brute_force"),
        ("BruteForceSampler", "brute_force"),
    ],
)
def test_samplers_are_known_by_several_spellings(spelling: str, kind: str) -> None:
    assert OptunaStrategy(sampler=spelling).kind == kind


def test_minus_one_job_means_one_per_core() -> None:
    assert OptunaStrategy(n_jobs=-1).n_jobs == os.cpu_count()


def test_the_runner_basic_train_alone_enables_training() -> None:
    given = {"basic_train": {"data_loader": "train_dataloader", "optimizer": "sgd", "max_steps": 7}}
    strategy = StrategyTable(sw_runner=given, metrics={})
    spec = SearchSpec.read(SearchConfig(model="toy", dataset="toy_tiny", search=SearchTable(strategy=strategy)))
    config = spec.training.train_config(spec.config, {})
    assert (config.training_optimizer, config.max_steps, config.batch_size) == ("sgd", 7, 128)
    assert spec.strategy.halving


def put(table: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split("/")
    for name in parents:
        table = table.setdefault(name, {})
    table[last] = value


SPACE, STRATEGY = "search/search_space", "search/strategy"
LAYER = f"{SPACE}/seed/seq_blocks_2/config"
QAT = "graph/quantize/mixed_precision_qat"
ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"search/serch_space": {}}, "unknown key 'serch_space'; did you mean 'search_space'?"),
    ({f"{SPACE}/name": "graph/quantize/mixed_precision_pt"}, "did you mean 'graph/quantize/mixed_precision_ptq'?"),
    ({f"{SPACE}/setup/by": "names"}, "did you mean 'name'?"),
    ({f"{SPACE}/setup/at": "name"}, "unknown key 'at'"),
    ({f"{LAYER}/weight_widht": [4]}, "has no parameter 'weight_widht'; did you mean 'weight_width'?"),
    ({f"{LAYER}/name": ["intger"]}, "did you mean 'integer'?"),
    ({f"{LAYER}/weight_width": []}, "'weight_width' is an empty list"),
    ({f"{LAYER}/weight_width": [4, "four"]}, "got 'four'"),
    ({f"{SPACE}/seed/seq_blocks_22/config/name": ["integer"]}, "no node 'seq_blocks_22'"),
    ({f"{SPACE}/seed/seq_blocks_2/cfg": {}}, "must hold one table, 'config'"),
    ({f"{STRATEGY}/name": "optunaa"}, "unknown search strategy 'optunaa'; did you mean 'optuna'?"),
    ({f"{STRATEGY}/runner": {}}, "unknown key 'runner'; did you mean"),
    ({f"{STRATEGY}/sw_runner/basic_evaluate": {}}, "did you mean 'basic_evaluation'?"),
    ({f"{STRATEGY}/sw_runner/basic_evaluation/num_sample": 3}, "did you mean 'num_samples'?"),
    ({f"{STRATEGY}/sw_runner/basic_evaluation/num_samples": 0}, "'num_samples' must be at least 1, got 0"),
    ({f"{STRATEGY}/sw_runner/basic_evaluation/data_loader": "val_loader"}, "did you mean 'val_dataloader'?"),
    ({f"{STRATEGY}/sw_runner/basic_train": {"max_epoch": 3}}, "did you mean 'max_epochs'?"),
    ({f"{STRATEGY}/sw_runner/basic_train": {"max_epochs": 0}}, "'max_epochs' must be at least 1, got 0"),
    ({f"{STRATEGY}/sw_runner/basic_train": {"learning_rate": "fast"}}, "'learning_rate' must be float"),
    ({f"{STRATEGY}/hw_runner/average_bitwith": {}}, "did you mean 'average_bitwidth'?"),
    ({f"{STRATEGY}/hw_runner/average_bitwidth/compare": 32}, "did you mean 'compare_to'?"),
    ({f"{STRATEGY}/hw_runner/average_bitwidth/compare_to": 0}, "'compare_to' must be at least 1"),
    ({f"{STRATEGY}/setup/n_trails": 3}, "unknown key 'n_trails'; did you mean 'n_trials'?"),
    ({f"{STRATEGY}/setup/n_trials": 0}, "'n_trials' must be at least 1, got 0"),
    ({f"{STRATEGY}/setup/n_jobs": -2}, "'n_jobs' must be at least 1, got -2"),
    ({f"{STRATEGY}/setup/sampler": "tp"}, "unknown sampler 'tp'; did you mean 'tpe'?"),
    ({f"{STRATEGY}/setup/direction": "up"}, "'direction' must be 'maximize' or 'minimize'"),
    ({f"{STRATEGY}/setup/timeout": -1}, "'timeout' must be above 0 seconds"),
    ({f"{STRATEGY}/metrics/acuracy": {"scale": 1.0}}, "unknown metric 'acuracy'; did you mean 'accuracy'?"),
    ({f"{STRATEGY}/metrics/accuracy/scal": 1.0}, "unknown key 'scal'; did you mean 'scale'?"),
    ({f"{STRATEGY}/metrics/accuracy/direction": "maximise"}, "did you mean 'maximize'?"),
    ({f"{SPACE}/training": {"learning_rate": [0.1]}}, f"needs training in the loop: set name = '{QAT}'"),
    ({f"{SPACE}/name": QAT, f"{SPACE}/training": {"learning_rat": [1]}}, "did you mean 'learning_rate'?"),
    ({f"{SPACE}/name": QAT, f"{SPACE}/training": {"learning_rate": 0.1}}, "must be a list of choices, got 0.1"),
    ({f"{SPACE}/name": QAT, f"{SPACE}/training": {"learning_rate": [-1]}}, "'learning_rate' must be at least 0"),
    ({f"{SPACE}/name": QAT, f"{SPACE}/training": {"batch_size": ["all"]}}, "'batch_size' must be int"),
    ({f"{SPACE}/name": QAT, f"{SPACE}/model": {"hidden": [[8]]}}, "model 'jsc-toy' has no options to choose from"),
    ({f"{SPACE}/name": QAT, f"{STRATEGY}/name": "ilp"}, "strategy 'ilp' does not train configurations"),
    (
        {f"{SPACE}/method": ["nearest", "gpt"]},
        "search.search_space.method: unknown name 'gpt'; did you mean 'gptq'?",
    ),
    ({f"{SPACE}/method": ["gptq"], f"{SPACE}/name": QAT}, "method is for searches without training"),
    ({f"{SPACE}/method": ["gptq"], f"{STRATEGY}/name": "ilp"}, "strategy 'ilp' measures layers one by one"),
    (
        {"model": "jsc-mlp", f"{SPACE}/name": QAT, f"{SPACE}/model": {"hiden": [[8]]}},
        "search.search_space.model: unknown name 'hiden'; did you mean 'hidden'?",
    ),
    (
        {"model": "jsc-mlp", "load_name": "x.pt", f"{SPACE}/name": QAT, f"{SPACE}/model": {"hidden": [[8]]}},
        "changes the model's shape, so weights cannot be loaded; remove 'x.pt'",
    ),
]


@pytest.mark.parametrize(("changes", "message"), ERRORS, ids=[next(reversed(each)) for each, _ in ERRORS])
def test_an_error_is_reported_and_nothing_is_written(
    changes: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = example("jsc_toy_search.toml")
    if f"{STRATEGY}/name" in changes and changes[f"{STRATEGY}/name"] == "ilp":
        table["search"]["strategy"]["setup"] = {}
    for path, value in changes.items():
        put(table, path, value)
    words = ["search", "--config", str(write(table, tmp_path)), *SMALL[:2], "--project-dir", str(tmp_path / "out")]
    assert main(words) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("ch: error: ")
    assert message in error
    assert not (tmp_path / "out").exists()


def test_the_default_space_is_searched_if_none_is_given() -> None:
    given = StrategyTable(setup={"sampler": "random"})
    spec = SearchSpec.read(SearchConfig(model="toy", dataset="toy_tiny", search=SearchTable(strategy=given)))
    assert spec.strategy == OptunaStrategy(sampler="random")
    assert [unit.name for unit in spec.problem().space.units] == ["seq_blocks_0", "seq_blocks_2", "seq_blocks_4"]


def test_a_key_of_another_strategy_is_named() -> None:
    table = SearchTable(strategy=StrategyTable(name="ilp", setup={"sampler": "tpe"}))
    with pytest.raises(ValueError, match="'sampler' is a key of strategy 'optuna', not of 'ilp'"):
        SearchSpec.read(SearchConfig(model="toy", dataset="toy_tiny", search=table))
