"""A search that was stopped in any way can be resumed, and ends like one that was not stopped."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from chop.config import SearchConfig
from chop.config.search import MetricTable, SearchTable, SpaceTable, StrategyTable
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.results.results import Results
from chop.searching.search import search
from chop.searching.space.dimension import equality_key
from chop.searching.strategies.measuring import ErrorMeasure
from chop.searching.study.plan import TrialPlan
from chop.searching.study.study import Study
from searching.commands import check_grid, finish, num_done, only_run, runs, start, write_config
from searching.commands import search as ch_search
from searching.commands import trials as logged

pytestmark = pytest.mark.slow

SAMPLERS = ("tpe", "random", "nsga2", "nsga3", "qmc", "brute_force")
LAYER = {
    "name": ["integer"],
    "data_in_width": [4, 8],
    "data_in_frac_width": ["NA"],
    "weight_width": [2, 4, 8],
    "weight_frac_width": ["NA"],
}


NUM_PLANNED = 15 + 2
"""The trials of `config`, and the uniform baselines of 8 and 4 bits."""


WITHOUT_POSITION = re.compile(r',"position":\d+')
"""Journals of earlier versions do not say where a line begins."""


class Crash(BaseException):
    """An error that nothing handles, so that files are left as after a kill."""


@pytest.fixture
def config(tmp_path: Path) -> SearchConfig:
    return make_config(tmp_path, "tpe", 15)


def make_config(folder: Path, sampler: str, n_trials: int) -> SearchConfig:
    space = SpaceTable(seed={name: {"config": LAYER} for name in ("seq_blocks_0", "seq_blocks_4")})
    metrics = {"loss": MetricTable(), "bitops": MetricTable()}
    setup = {"sampler": sampler, "n_trials": n_trials}
    table = SearchTable(space, StrategyTable(setup=setup, metrics=metrics))
    return SearchConfig(
        model="toy", dataset="toy_tiny", accelerator="cpu", project_dir=folder / "out", search=table
    )


def with_setup(config: SearchConfig, **setup: object) -> SearchConfig:
    strategy = config.search.strategy
    changed = replace(strategy, setup={**strategy.setup, **setup})
    return replace(config, search=replace(config.search, strategy=changed))


def tried(run: Path) -> list[tuple[int, str, Mapping[str, Any], Mapping[str, float]]]:
    return [(each["number"], each["state"], each["params"], each["metrics"]) for each in logged(run)]


def crash_at(monkeypatch: pytest.MonkeyPatch, what: str, call: int) -> None:
    """Let a method of `Study`, or `PTQProblem.measure`, crash at the call with this number."""
    owner: type = PTQProblem if what == "measure" else Study
    original, calls = getattr(owner, what), itertools.count()

    def crash(self: object, *arguments: object, **options: object) -> object:
        if next(calls) == call:
            raise Crash
        return original(self, *arguments, **options)

    monkeypatch.setattr(owner, what, crash)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_gives_the_same_trials(tmp_path: Path, sampler: str) -> None:
    config = make_config(tmp_path, sampler, 12)
    first, second = search(config), search(config)
    assert tried(first) == tried(second)
    expected = [14] if sampler in ("tpe", "nsga2", "nsga3") else range(12, 15)
    assert len(tried(first)) in expected, "twelve and two baselines, some of which may be among the twelve"
    assert len({equality_key(each[2]) for each in tried(first)}) == len(tried(first)), "none is repeated"
    if sampler != "brute_force":
        other = search(replace(config, seed=1))
        assert [each[2] for each in tried(first)] != [each[2] for each in tried(other)]


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random"])
@pytest.mark.parametrize(
    ("what", "call"),
    [("measure", 0), ("plan", 0), ("configuration", 3), ("measure", 9), ("complete", 7), ("_finish", 3)],
)
def test_a_search_resumed_after_a_crash_has_the_same_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str, what: str, call: int
) -> None:
    config = make_config(tmp_path, sampler, 12)
    expected = tried(search(replace(config, project_dir=tmp_path / "undisturbed")))
    with monkeypatch.context() as patch:
        crash_at(patch, what, call)
        with pytest.raises(Crash):
            search(config)
    run = search(replace(config, resume=True))
    assert runs(tmp_path) == [run, *runs(tmp_path)[1:]]
    assert tried(run) == expected


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_a_journal_cut_inside_the_params_of_a_trial_is_resumed_with_the_same_trials(
    tmp_path: Path, sampler: str
) -> None:
    config = make_config(tmp_path, sampler, 14)
    run = search(config)
    expected, journal = tried(run), run / "search" / "study.journal"
    lines = journal.read_text().splitlines(keepends=True)
    drawing = [index for index, line in enumerate(lines) if '"trial_id":13,' in line and '"user_attr"' not in line]
    assert len(drawing) >= 6, "claimed, drawn as one text, and stored choice by choice"
    for index in drawing:
        journal.write_text("".join(lines[: index + 1]))
        assert tried(search(replace(config, resume=True))) == expected


def test_brute_force_tries_all_configurations_unless_n_trials_is_given(tmp_path: Path) -> None:
    config = make_config(tmp_path, "brute_force", 12)
    strategy = replace(config.search.strategy, setup={"sampler": "brute_force"})
    everything = search(replace(config, search=replace(config.search, strategy=strategy)))
    assert len(tried(everything)) == 36
    assert 12 <= len(tried(search(config))) <= 14


def test_more_trials_than_configurations_are_not_planned(tmp_path: Path) -> None:
    assert len(tried(search(make_config(tmp_path, "tpe", 50)))) == 36


def test_a_plan_interrupted_by_a_crash_is_completed(
    config: SearchConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = optuna.Study.enqueue_trial, itertools.count()

    def crash(self: optuna.Study, *arguments: Any, **options: Any) -> None:
        if next(calls) == 5:
            raise Crash
        original(self, *arguments, **options)

    expected = tried(search(replace(config, project_dir=tmp_path / "undisturbed")))
    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "enqueue_trial", crash)
        with pytest.raises(Crash):
            search(config)
    assert tried(search(replace(config, resume=True))) == expected


def test_more_trials_can_be_added_to_a_finished_search(config: SearchConfig, tmp_path: Path) -> None:
    run = search(config)
    before = tried(run)
    assert search(with_setup(replace(config, resume=True), n_trials=25)) == run
    after = tried(run)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 10
    undisturbed = search(with_setup(replace(config, project_dir=tmp_path / "undisturbed"), n_trials=25))
    assert tried(undisturbed) == after


def test_nothing_is_added_to_a_search_with_a_corrupt_trial(config: SearchConfig) -> None:
    run = search(config)
    journal = run / "search" / "study.journal"
    journal.write_text(journal.read_text().replace('"loss":', '"lost":', 1))
    before = journal.read_bytes()
    with pytest.raises(ValueError, match="a stored trial has no metric 'loss': the study is corrupt"):
        search(with_setup(replace(config, resume=True), n_trials=25))
    assert journal.read_bytes() == before


@pytest.mark.parametrize("is_earlier", [False, True])
def test_a_study_that_lacks_a_trial_is_not_resumed(config: SearchConfig, is_earlier: bool) -> None:
    journal = search(config) / "search" / "study.journal"
    lines = journal.read_text().splitlines(keepends=True)
    number = next(index for index, line in enumerate(lines) if '"op_code":4,' in line)
    text = "".join(lines[:number] + lines[number + 1 :])
    journal.write_text(WITHOUT_POSITION.sub("", text) if is_earlier else text)
    with pytest.raises(ValueError, match=r"corrupt.* start a new search"):
        search(replace(config, resume=True))


@pytest.mark.parametrize("strategy", ["ilp", "sensitivity"])
def test_ctrl_c_while_trials_are_planned_leaves_nothing_and_says_so(
    config: SearchConfig, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ErrorMeasure, "__call__", interrupt)
    table = replace(config.search, strategy=replace(config.search.strategy, name=strategy, setup={}))
    with pytest.raises(
        KeyboardInterrupt, match="the trials were still being planned, and none has run; run the same"
    ):
        search(replace(config, search=table))
    assert not config.project_dir.exists()


@pytest.mark.parametrize("call", [0, 4])
def test_adding_trials_interrupted_by_a_crash_is_completed(
    config: SearchConfig, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    run, more = search(config), with_setup(replace(config, resume=True), n_trials=25)
    original, calls = optuna.Study.enqueue_trial, itertools.count()

    def crash(self: optuna.Study, *arguments: Any, **options: Any) -> None:
        if next(calls) == call:
            raise Crash
        original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "enqueue_trial", crash)
        with pytest.raises(Crash):
            search(more)
    assert search(more) == run
    assert [(number, state) for number, state, _, _ in tried(run)] == [(each, "complete") for each in range(27)]


def test_temporary_files_of_a_killed_search_are_removed(config: SearchConfig) -> None:
    run = search(config)
    temporary = run / "search" / ".1234.trials.parquet"
    temporary.write_bytes(b"PAR1")
    search(replace(config, resume=True))
    assert not temporary.exists()
    assert len(tried(run)) == NUM_PLANNED


def test_resuming_a_finished_search_shows_its_results(
    config: SearchConfig, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    run = search(config)
    before = tried(run)
    capsys.readouterr()
    with caplog.at_level("INFO", "chop"):
        assert search(replace(config, resume=True)) == run
    assert f"all {len(before)} trials are finished" in caplog.text
    assert tried(run) == before
    assert "Pareto front" in capsys.readouterr().out


def test_resuming_a_finished_search_shows_the_importances_that_it_kept(
    config: SearchConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = with_setup(config, n_trials=25)
    search(config)
    before = capsys.readouterr().out
    assert "importance of choices" in before
    monkeypatch.setattr(Results, "importances", None)  # it imports scikit-learn, which takes longer than the rest
    search(replace(config, resume=True))
    assert capsys.readouterr().out == before


def test_a_study_from_before_a_metric_existed_is_resumed(
    config: SearchConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run = search(replace(config, n_trials=2))
    journal = run / "search" / "study.journal"
    text = WITHOUT_POSITION.sub("", journal.read_text())
    for name in ("quantized_weight_bits", "quantized_activation_bits"):
        assert name in text
        text = re.sub(rf'\\?"{name}\\?": ?[\d.]+, ?', "", text)
        assert name not in text
    journal.write_text(text)
    capsys.readouterr()
    assert search(replace(config, n_trials=4, resume=True)) == run
    assert "bits per weight" in capsys.readouterr().out
    measured = [trial["metrics"].get("quantized_weight_bits") for trial in logged(run)]
    assert None in measured
    assert any(value is not None for value in measured)


def test_resume_selects_the_newest_run_the_run_of_the_file_or_that_of_the_study(config: SearchConfig) -> None:
    runs = [search(with_setup(replace(config, study=name), n_trials=3)) for name in ("a", "b")]
    now = time.time()
    for index, run in enumerate(runs):
        os.utime(run / "search" / "study.journal", (now + index, now + index))
    resumed = replace(config, resume=True)
    assert search(with_setup(resumed, n_trials=4)) == runs[1]
    assert search(with_setup(replace(resumed, config=runs[0] / "run.toml"), n_trials=4)) == runs[0]
    os.utime(runs[1] / "search" / "study.journal", (now + 99, now + 99))
    assert search(with_setup(replace(resumed, study="a"), n_trials=5)) == runs[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, "its seed is 0, not 5"),
        ({"data_options": {"num_rows": 300}}, "it was run on different data"),
        ({"space": {"seq_blocks_0": {"config": LAYER}}}, "its search space differs"),
        ({"metrics": {"accuracy": MetricTable()}}, "its metrics differ"),
        ({"setup": {"sampler": "nsga2"}}, "its strategy differs"),
    ],
)
def test_a_different_search_is_not_resumed(config: SearchConfig, change: dict[str, Any], message: str) -> None:
    run = search(config)
    before = tried(run)
    table = config.search
    if "space" in change:
        changed = replace(config, search=replace(table, search_space=SpaceTable(seed=change["space"])))
    elif "metrics" in change:
        changed = replace(
            config, search=replace(table, strategy=replace(table.strategy, metrics=change["metrics"]))
        )
    elif "setup" in change:
        changed = with_setup(config, **change["setup"])
    else:
        changed = replace(config, **change)
    with pytest.raises(ValueError, match=f"is a different search: {message}"):
        search(replace(changed, resume=True))
    assert runs_in(config) == [run]
    assert tried(run) == before


def runs_in(config: SearchConfig) -> list[Path]:
    return sorted(config.project_dir.iterdir())


def test_batch_size_and_time_limit_may_differ_when_resuming(config: SearchConfig) -> None:
    run = search(config)
    assert search(with_setup(replace(config, resume=True, batch_size=32), timeout=100, n_jobs=1)) == run


def test_resume_without_an_earlier_search_starts_a_new_one(
    config: SearchConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "chop"):
        run = search(replace(config, resume=True))
    assert "nothing to resume in" in caplog.text
    assert len(tried(run)) == NUM_PLANNED


def test_a_study_in_a_database_is_resumed_without_naming_it_again(config: SearchConfig, tmp_path: Path) -> None:
    run = search(replace(config, storage=f"sqlite:///{tmp_path}/study.db"))
    assert search(with_setup(replace(config, resume=True), n_trials=18)) == run
    assert len(tried(run)) == NUM_PLANNED + 3


def test_the_rows_that_accuracy_was_measured_on_are_named(
    config: SearchConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run = search(config)
    assert "accuracy and loss are those of 80 rows of val_dataloader" in capsys.readouterr().out
    assert json.loads((run / "summary.json").read_text())["evaluated_on"] == "val_dataloader"


def test_a_search_in_memory_cannot_be_resumed(config: SearchConfig) -> None:
    with pytest.raises(ValueError, match="a search in memory cannot be resumed"):
        search(replace(config, storage="memory", resume=True))


def test_an_error_while_planning_leaves_no_folder(config: SearchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(TrialPlan, "make", refuse)
    with pytest.raises(ValueError, match="no"):
        search(config)
    assert not config.project_dir.exists()


def test_an_interrupt_stops_after_the_current_trial(
    config: SearchConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    complete, calls = Study.complete, itertools.count()

    def interrupted(self: Study, *arguments: Any) -> None:
        if next(calls) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        complete(self, *arguments)

    monkeypatch.setattr(Study, "complete", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(config)
    (run,) = runs_in(config)
    states = [trial[1] for trial in tried(run)]
    assert states == ["complete"] * 5 + ["waiting"] * (NUM_PLANNED - 5)
    assert f"stopped with 12 of 17 trials unfinished. To resume:\n  ch search --config {run}/run.toml --resume" in (
        capsys.readouterr().err
    )


def test_trials_after_the_time_limit_stay_waiting(config: SearchConfig, capsys: pytest.CaptureFixture[str]) -> None:
    run = search(with_setup(config, timeout=1e-6))
    assert {trial[1] for trial in tried(run)} == {"waiting"}
    assert "stopped with 17 of 17 trials unfinished" in capsys.readouterr().err


@pytest.mark.parametrize("storage", [None, "sqlite"])
def test_two_processes_never_write_to_one_run(
    config: SearchConfig, monkeypatch: pytest.MonkeyPatch, storage: str | None, tmp_path: Path
) -> None:
    """With a database, the second one joins the study with a folder of its own."""
    complete, calls = Study.complete, itertools.count()
    config = replace(config, storage=storage and f"sqlite:///{tmp_path}/study.db")
    joined: list[Path] = []

    def second(self: Study, *arguments: Any) -> None:
        if next(calls) == 4:
            again = with_setup(replace(config, resume=True), timeout=1e-6)
            if storage is None:
                with pytest.raises(
                    ValueError, match=rf"^process {os.getpid()} on .* is writing to {runs_in(config)[0]}"
                ):
                    search(again)
            else:
                joined.append(search(again))
        complete(self, *arguments)

    monkeypatch.setattr(Study, "complete", second)
    run = search(config)
    assert runs_in(config) == sorted([run, *joined])
    assert len(joined) == (storage is not None)
    assert [trial[1] for trial in tried(run)] == ["complete"] * NUM_PLANNED


def test_results_are_saved_during_the_search(config: SearchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    complete, calls = Study.complete, itertools.count()

    def slow(self: Study, *arguments: Any) -> None:
        time.sleep(0.06)
        if next(calls) == 15:
            raise Crash
        complete(self, *arguments)

    monkeypatch.setattr(Study, "complete", slow)
    with pytest.raises(Crash):
        search(with_setup(config, save_every_n_trials=5))
    (run,) = runs_in(config)
    states = [trial[1] for trial in tried(run)]
    assert 10 <= states.count("complete") <= 15


@pytest.mark.usefixtures("copied_commands")
@pytest.mark.parametrize("storage", ["journal", "sqlite"])
def test_a_search_can_be_resumed_after_kills_at_any_point(tmp_path: Path, storage: str) -> None:
    write_config(tmp_path)
    where = ["--study", "s", "--storage", f"sqlite:///{tmp_path}/study.db"] if storage == "sqlite" else []
    draw = random.Random(storage)
    process = start(tmp_path, *where, seconds=0.02)
    for _ in range(5):
        time.sleep(draw.uniform(0.2, 1.2))
        process.kill()
        process.communicate()
        process = start(tmp_path, *where, "--resume", seconds=0.02)
    finish(process)
    check_grid(runs(tmp_path)[-1])


@pytest.mark.usefixtures("copied_commands")
def test_finished_trials_are_not_repeated_after_a_kill(tmp_path: Path) -> None:
    write_config(tmp_path)
    process = start(tmp_path, seconds=0.05)
    while not runs(tmp_path) or num_done(only_run(tmp_path)) < 20:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    done = num_done(only_run(tmp_path))
    ch_search(tmp_path, "--resume")
    check_grid(only_run(tmp_path))
    assert 20 <= done < 54
    assert num_done(only_run(tmp_path)) == 54, "each trial was completed once"
