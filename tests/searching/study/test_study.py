"""A study hands out each planned trial exactly once, on every storage."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial

from chop.runs import RunFolder
from chop.searching.space.space import OptionChoices, Space
from chop.searching.study import heartbeat
from chop.searching.study.storage import StudyStorage, open_database, open_journal, open_memory
from chop.searching.study.study import MAX_NOTE_CHARACTERS, MAX_WORKERS_LOST, Study

SPACE = Space((), (OptionChoices("s", {"x": (1, 2, 3)}),))
PARAMS = [{"s/x": 1}, {"s/x": 2}, {"s/x": 3}]
STORAGES = ("memory", "journal", "sqlite")


@pytest.fixture(autouse=True)
def _short_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOP_SEARCH_HEARTBEAT", "1")


def open_storage(kind: str, folder: Path) -> StudyStorage:
    match kind:
        case "memory":
            return open_memory()
        case "journal":
            return open_journal(RunFolder(folder))
        case _:
            return open_database(f"sqlite:///{folder}/study.db")


@contextmanager
def planned(kind: str, folder: Path, params: list[dict[str, int]] = PARAMS) -> Iterator[tuple[Study, StudyStorage]]:
    storage = open_storage(kind, folder)
    study = Study.create(storage, "s", ["maximize"])
    assert study is not None
    study.plan(params, SPACE)
    yield study, storage


def value(study: Study, trial: FrozenTrial) -> object:
    return study.configuration(trial, SPACE)["s"]["x"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORAGES)
def test_each_trial_is_claimed_once_in_the_order_of_the_plan(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path) as (study, _):
        claimed = [study.claim() for _ in range(4)]
        assert [trial and value(study, trial) for trial in claimed] == [1, 2, 3, None]
        assert study.num_planned == 3
        assert study.count("running") == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORAGES)
def test_results_of_trials_are_stored(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path) as (study, _):
        done, pruned, failed = (study.claim() for _ in range(3))
        assert done is not None
        assert pruned is not None
        assert failed is not None
        study.complete(done, [0.5], {"accuracy": 0.5})
        study.prune(pruned, {"accuracy": 0.25})
        study.fail(failed, "no such width")
        first, second, third = study.records()
    assert (first.state, first.params, dict(first.metrics)) == ("complete", {"s/x": 1}, {"accuracy": 0.5})
    assert (second.state, second.params, dict(second.metrics)) == ("pruned", {"s/x": 2}, {"accuracy": 0.25})
    assert (third.state, third.params, third.reason) == ("failed", {"s/x": 3}, "no such width")


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORAGES)
def test_a_trial_that_is_given_back_keeps_its_number_and_params(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path, [{}]) as (study, _):
        study.use_samplers(lambda number, num_earlier: optuna.samplers.RandomSampler(seed=5))
        trial = study.claim()
        assert trial is not None
        drawn = value(study, trial)
        study.give_back(trial)
        assert study.count("waiting") == 1
        study.use_samplers(lambda number, num_earlier: optuna.samplers.BruteForceSampler(seed=1))
        again = study.claim()
        assert again is not None
        assert (again.number, value(study, again)) == (trial.number, drawn)
        study.complete(again, [1.0], {})
        assert [record.state for record in study.records()] == ["complete"]


def test_a_value_that_is_not_a_number_fails_the_trial(tmp_path: Path) -> None:
    with planned("memory", tmp_path) as (study, _):
        trial = study.claim()
        assert trial is not None
        study.complete(trial, [float("nan")], {"loss": float("nan")})
        assert study.records()[0].reason == "a metric is not a number"


@pytest.mark.slow
def test_long_notes_are_stored_in_chunks(tmp_path: Path) -> None:
    note = {"é": "s/x" * (3 * MAX_NOTE_CHARACTERS), "list": list(range(10_000))}
    with planned("sqlite", tmp_path) as (study, storage):
        study.write_note("long", note)
        assert study.read_note("long") == note
        assert study.read_note("missing") is None
        texts = storage.backend.get_study_user_attrs(study._id).values()
        assert max(len(str(text)) for text in texts) <= MAX_NOTE_CHARACTERS


@pytest.mark.parametrize(
    "stored",
    [
        {"drawn": 1},
        {"drawn": 2, "drawn 0": "{}"},
        {"drawn": "1", "drawn 0": "{}"},
        {"drawn": 1, "drawn 0": 7},
        {"drawn": 1, "drawn 0": "[3"},
        {"drawn": 1, "drawn 0": "3"},
    ],
)
def test_changed_params_of_a_trial_are_reported_in_one_sentence(stored: dict[str, Any], tmp_path: Path) -> None:
    with planned("memory", tmp_path) as (study, storage):
        trial = study.claim()
        assert trial is not None
        for key, part in stored.items():
            storage.backend.set_trial_system_attr(trial._trial_id, key, part)
        with pytest.raises(
            ValueError, match=r"^the study is corrupt: its entry 'drawn' cannot be read; start a new"
        ):
            study.records()


@pytest.mark.slow
def test_a_study_can_be_created_once(tmp_path: Path) -> None:
    storage = open_storage("sqlite", tmp_path)
    first, second = Study.create(storage, "s", ["maximize"]), Study.create(storage, "s", ["maximize"])
    assert first is not None
    assert second is None
    assert Study.load(storage, "other") is None


def test_an_incomplete_plan_is_finished_and_not_repeated(tmp_path: Path) -> None:
    storage = open_storage("journal", tmp_path)
    study = Study.create(storage, "s", ["maximize"])
    assert study is not None
    for params in PARAMS[:2]:
        optuna.load_study(study_name="s", storage=storage.backend).enqueue_trial(params)
    assert study.num_planned is None
    assert not study.wait_for_plan(), "there is no other process"
    assert study.elect_planner()
    study.plan(PARAMS, SPACE)
    assert [dict(record.params) for record in study.records()] == PARAMS
    assert study.num_planned == 3
    assert study.wait_for_plan()


@pytest.mark.slow
def test_a_planner_without_progress_counts_as_crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage("sqlite", tmp_path)
    monkeypatch.setattr(heartbeat, "MAX_MISSED", 0.5)
    study = Study.create(storage, "s", ["maximize"])
    assert study is not None
    start = time.monotonic()
    assert not study.wait_for_plan()
    assert time.monotonic() - start > 0.5


@pytest.mark.slow
def test_waiting_for_a_plan_ends_when_it_is_complete(tmp_path: Path) -> None:
    storage = open_storage("sqlite", tmp_path)
    made = Study.create(storage, "s", ["maximize"])
    assert made is not None
    other = Study.load(open_storage("sqlite", tmp_path), "s")
    assert other is not None
    timer = threading.Timer(0.3, made.plan, [PARAMS, SPACE])
    timer.start()
    assert other.wait_for_plan()
    timer.join()
    assert other.count("waiting") == 3


@pytest.mark.slow
def test_one_planner_is_elected(tmp_path: Path) -> None:
    made = Study.create(open_storage("sqlite", tmp_path), "s", ["maximize"])
    assert made is not None
    answers = []

    def ask() -> None:
        study = Study.load(open_storage("sqlite", tmp_path), "s")
        assert study is not None
        answers.append(study.elect_planner())

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, True]


def test_a_trial_that_crashes_several_workers_fails(tmp_path: Path) -> None:
    with planned("journal", tmp_path, PARAMS[:2]) as (study, _):
        for num_lost in range(1, MAX_WORKERS_LOST + 1):
            trial = study.claim()  # and its worker crashes
            assert trial is not None
            assert trial.number == 0
            assert study.retry_lost_trials() == 1
            assert study.count("waiting") == (2 if num_lost < MAX_WORKERS_LOST else 1)
        assert study.records()[0].reason == "3 workers crashed while they ran it"
        trial = study.claim()
        assert trial is not None
        assert trial.number == 1


def test_a_larger_plan_adds_the_params_that_were_not_tried(tmp_path: Path) -> None:
    with planned("memory", tmp_path, [PARAMS[0], PARAMS[2]]) as (study, _):
        study.plan([PARAMS[0], PARAMS[1], PARAMS[2]], SPACE)
        assert [record.params["s/x"] for record in study.records()] == [1, 3, 2]
        assert study.num_planned == 3


@pytest.mark.slow
def test_trials_without_a_heartbeat_are_repeated(tmp_path: Path) -> None:
    with planned("sqlite", tmp_path) as (study, _):
        crashed_storage = open_storage("sqlite", tmp_path)
        crashed = Study.load(crashed_storage, "s")  # its heartbeat is never started
        assert crashed is not None
        lost = crashed.claim()
        assert lost is not None
        mine = study.claim()
        assert mine is not None
        deadline = time.monotonic() + 30
        with study.running(mine):
            other = Study.load(open_storage("sqlite", tmp_path), "s")
            assert other is not None
            while not other.retry_lost_trials():
                assert time.monotonic() < deadline
                time.sleep(0.2)
        study.complete(mine, [1.0], {})
        again = [study.claim(), study.claim()]
        assert sorted(trial.number for trial in again if trial is not None) == [0, 2]
        crashed.complete(lost, [0.1], {})  # it was only slow; the first result counts
        for trial in again:
            assert trial is not None
            study.complete(trial, [2.0], {})
        assert [record.state for record in study.records()] == ["complete"] * 3


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
@pytest.mark.slow
def test_concurrent_claims_never_get_the_same_trial(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path, [{"s/x": 1}] * 60):
        numbers: list[int] = []

        def claim_all() -> None:
            storage = open_storage(kind, tmp_path)
            study = Study.load(storage, "s")
            assert study is not None
            while (trial := study.claim()) is not None:
                numbers.append(trial.number)

        threads = [threading.Thread(target=claim_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(60))


@pytest.mark.parametrize("kind", ["journal", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_workers_that_draw_at_the_same_time_never_try_a_configuration_twice(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path, [{}, {}]):
        both_draw, drawing = threading.Barrier(2), {0, 1}

        def make_sampler(number: int, num_earlier: int) -> optuna.samplers.BaseSampler:
            if number in drawing:
                drawing.remove(number)
                both_draw.wait(30)
            return optuna.samplers.RandomSampler(seed=num_earlier)

        def run_trial() -> None:
            study = Study.load(open_storage(kind, tmp_path), "s")
            assert study is not None
            study.use_samplers(make_sampler)
            trial = study.claim()
            assert trial is not None
            study.configuration(trial, SPACE)

        threads = [threading.Thread(target=run_trial) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = Study.load(open_storage(kind, tmp_path), "s")
        assert made is not None
        first, second = (record.params for record in made.records())
        assert first != second
