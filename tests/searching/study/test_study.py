"""A study hands out each planned trial once, and loses none; on every storage."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
import pytest
from optuna.trial import Trial

from chop.runs import RunFolder
from chop.searching.space.space import Settings, Space
from chop.searching.study.heartbeat import Presence
from chop.searching.study.storage import Place, open_database, open_journal, open_memory
from chop.searching.study.study import MOST_LOST, PIECE, Study

SPACE = Space((), (Settings("s", {"x": (1, 2, 3)}),))
POINTS = [{"s/x": 1}, {"s/x": 2}, {"s/x": 3}]
STORAGES = ("memory", "journal", "sqlite")


@pytest.fixture(autouse=True)
def _quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOP_SEARCH_HEARTBEAT", "1")


def open_place(kind: str, folder: Path) -> Place:
    match kind:
        case "memory":
            return open_memory()
        case "journal":
            return open_journal(RunFolder(folder))
        case _:
            return open_database(f"sqlite:///{folder}/study.db")


@contextmanager
def planned(kind: str, folder: Path, points: list[dict[str, int]] = POINTS) -> Iterator[tuple[Study, Place]]:
    place = open_place(kind, folder)
    with place.presence:
        study = Study.create(place, "s", ["maximize"])
        assert study is not None
        study.plan(points, SPACE)
        yield study, place


def value(trial: Trial) -> int:
    found: int = trial.suggest_categorical("s/x", [1, 2, 3])
    return found


@pytest.mark.parametrize("kind", STORAGES)
def test_each_trial_is_handed_out_once_in_the_order_of_the_plan(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path) as (study, _):
        claimed = [study.claim() for _ in range(4)]
        assert [trial and value(trial) for trial in claimed] == [1, 2, 3, None]
        assert study.planned == 3
        assert study.count("running") == 3


@pytest.mark.parametrize("kind", STORAGES)
def test_what_became_of_trials_is_kept(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path) as (study, _):
        done, given_up, bad = (study.claim() for _ in range(3))
        assert done is not None
        assert given_up is not None
        assert bad is not None
        for trial in (done, given_up, bad):
            value(trial)
        study.complete(done, [0.5], {"accuracy": 0.5})
        study.prune(given_up, {"accuracy": 0.25})
        study.fail(bad, "no such width")
        first, second, third = study.records()
    assert (first.state, first.params, dict(first.metrics)) == ("complete", {"s/x": 1}, {"accuracy": 0.5})
    assert (second.state, second.params, dict(second.metrics)) == ("pruned", {"s/x": 2}, {"accuracy": 0.25})
    assert (third.state, third.params, third.reason) == ("failed", {"s/x": 3}, "no such width")


@pytest.mark.parametrize("kind", STORAGES)
def test_a_trial_that_is_given_back_waits_under_its_number_with_what_was_drawn(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path, [{}]) as (study, _):
        study.use(lambda number: optuna.samplers.RandomSampler(seed=5))
        trial = study.claim()
        assert trial is not None
        drawn = value(trial)
        study.give_back(trial)
        assert study.count("waiting") == 1
        study.use(lambda number: optuna.samplers.BruteForceSampler(seed=1))
        again = study.claim()
        assert again is not None
        assert (again.number, value(again)) == (trial.number, drawn)
        study.complete(again, [1.0], {})
        assert [record.state for record in study.records()] == ["complete"]


def test_a_value_that_is_no_number_fails_the_trial(tmp_path: Path) -> None:
    with planned("memory", tmp_path) as (study, _):
        trial = study.claim()
        assert trial is not None
        study.complete(trial, [float("nan")], {"loss": float("nan")})
        assert study.records()[0].reason == "a metric is not a number"


def test_long_notes_come_back_whole(tmp_path: Path) -> None:
    note = {"é": "s/x" * (3 * PIECE), "list": list(range(10_000))}
    with planned("sqlite", tmp_path) as (study, place):
        study.write("long", note)
        assert study.note("long") == note
        assert study.note("missing") is None
        texts = place.storage.get_study_user_attrs(study._id).values()
        assert max(len(str(text)) for text in texts) <= PIECE


def test_of_two_that_make_a_study_one_does(tmp_path: Path) -> None:
    place = open_place("sqlite", tmp_path)
    first, second = Study.create(place, "s", ["maximize"]), Study.create(place, "s", ["maximize"])
    assert first is not None
    assert second is None
    assert Study.load(place, "other") is None


def test_a_plan_that_broke_off_is_finished_and_not_repeated(tmp_path: Path) -> None:
    place = open_place("journal", tmp_path)
    with place.presence:
        study = Study.create(place, "s", ["maximize"])
        assert study is not None
        for point in POINTS[:2]:
            study._study.enqueue_trial(point)
        assert study.planned is None
        assert not study.wait_for_plan(), "there is no one else"
        assert study.elect()
        study.plan(POINTS, SPACE)
        assert [dict(record.params) for record in study.records()] == POINTS
        assert study.planned == 3
        assert study.wait_for_plan()


def test_a_planner_that_is_silent_for_long_is_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = open_place("sqlite", tmp_path)
    monkeypatch.setattr(place.presence, "patience", 0.5)
    study = Study.create(place, "s", ["maximize"])
    assert study is not None
    begin = time.monotonic()
    assert not study.wait_for_plan()
    assert time.monotonic() - begin > 0.5


def test_who_waits_for_a_plan_sees_it_finished(tmp_path: Path) -> None:
    place = open_place("sqlite", tmp_path)
    made = Study.create(place, "s", ["maximize"])
    assert made is not None
    other = Study.load(open_place("sqlite", tmp_path), "s")
    assert other is not None
    timer = threading.Timer(0.3, made.plan, [POINTS, SPACE])
    timer.start()
    assert other.wait_for_plan()
    timer.join()
    assert other.count("waiting") == 3


@pytest.mark.slow
def test_two_that_want_to_plan_agree_on_one(tmp_path: Path) -> None:
    made = Study.create(open_place("sqlite", tmp_path), "s", ["maximize"])
    assert made is not None
    answers = []

    def ask() -> None:
        study = Study.load(open_place("sqlite", tmp_path), "s")
        assert study is not None
        answers.append(study.elect())

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, True]


def test_a_trial_that_kills_its_workers_fails_in_the_end(tmp_path: Path) -> None:
    with planned("journal", tmp_path, POINTS[:2]) as (study, _):
        for times in range(1, MOST_LOST + 1):
            trial = study.claim()  # and its worker is gone
            assert trial is not None
            assert trial.number == 0
            assert study.retry_lost() == 1
            assert study.count("waiting") == (2 if times < MOST_LOST else 1)
        assert study.records()[0].reason == "3 workers died while they ran it"
        trial = study.claim()
        assert trial is not None
        assert trial.number == 1


def test_one_death_that_several_notice_counts_once(tmp_path: Path) -> None:
    with planned("journal", tmp_path) as (study, _):
        trial = study.claim()
        assert trial is not None
        study.presence.lost = lambda study: [trial._trial_id]  # type: ignore[method-assign]  # seen before others acted
        assert [study.retry_lost() for _ in range(MOST_LOST)] == [1, 0, 0]
        assert study.records()[0].state == "waiting"


def test_a_larger_plan_adds_the_points_that_are_new_wherever_they_stand(tmp_path: Path) -> None:
    with planned("memory", tmp_path, [POINTS[0], POINTS[2]]) as (study, _):
        study.plan([POINTS[0], POINTS[1], POINTS[2]], SPACE)
        assert [record.params["s/x"] for record in study.records()] == [1, 3, 2]
        assert study.planned == 3


@pytest.mark.slow
def test_a_database_knows_the_trials_of_silent_workers(tmp_path: Path) -> None:
    with planned("sqlite", tmp_path) as (study, _):
        dead_place = open_place("sqlite", tmp_path)
        dead = Study.load(dead_place, "s")  # never enters, and so has no heart
        assert dead is not None
        lost = dead.claim()
        assert lost is not None
        mine = study.claim()
        assert mine is not None
        value(mine)
        deadline = time.monotonic() + 30
        while not study.retry_lost():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        study.complete(mine, [1.0], {})
        again = [study.claim(), study.claim()]
        assert sorted(trial.number for trial in again if trial is not None) == [0, 2]
        for trial in again:
            assert trial is not None
            value(trial)
        dead.complete(lost, [0.1], {})  # it was slow only: whoever is first, there is one result
        for trial in again:
            assert trial is not None
            study.complete(trial, [2.0], {})
        assert [record.state for record in study.records()] == ["complete"] * 3


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
@pytest.mark.slow
def test_threads_that_claim_at_once_never_get_the_same(kind: str, tmp_path: Path) -> None:
    with planned(kind, tmp_path, [{"s/x": 1}] * 60):
        numbers: list[int] = []

        def claim_all() -> None:
            place = open_place(kind, tmp_path)
            study = Study.load(Place(place.storage, Presence()), "s")
            assert study is not None
            while (trial := study.claim()) is not None:
                numbers.append(trial.number)

        threads = [threading.Thread(target=claim_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(60))
