"""A worker and the trials that it claims."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

from chop.runs import RunFolder
from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.evaluation.problem import Metrics, ShouldContinue
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.study.heartbeat import Heartbeats
from chop.searching.study.storage import StudyStorage, open_journal, open_memory
from chop.searching.study.study import Study
from chop.searching.study.worker import Worker

OBJECTIVES = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))


@pytest.fixture
def storage() -> StudyStorage:
    return open_memory()


@pytest.fixture
def study(storage: StudyStorage, problem: PTQProblem) -> Study:
    made = Study.create(storage, "s", OBJECTIVES.directions)
    assert made is not None
    made.plan(list(problem.space.all_params())[:6], problem.space)
    return made


@pytest.mark.slow
def test_all_trials_have_the_metrics_that_the_problem_measures(study: Study, problem: PTQProblem) -> None:
    assert Worker(study, problem, OBJECTIVES).run() == 6
    for record in study.records():
        assert dict(record.metrics) == problem.measure(problem.space.configuration(record.params))


def test_a_configuration_that_is_not_allowed_fails_without_ending_the_search(
    study: Study, problem: PTQProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = problem.measure
    numbers: Iterator[int] = iter(range(10))

    def refuse_third(*arguments: object) -> Metrics:
        if next(numbers) == 2:
            raise ValueError("no such width")
        return measure(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(problem, "measure", refuse_third)
    assert Worker(study, problem, OBJECTIVES).run() == 6
    assert [record.reason for record in study.records()] == [None, None, "no such width", None, None, None]


def test_an_unexpected_error_ends_the_worker_and_fails_the_trial(
    study: Study, problem: PTQProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> Metrics:
        raise ZeroDivisionError("oh")

    with monkeypatch.context() as patch:
        patch.setattr(problem, "measure", break_down)
        with pytest.raises(ZeroDivisionError):
            Worker(study, problem, OBJECTIVES).run()
    assert study.records()[0].reason == "ZeroDivisionError: oh"
    assert Worker(study, problem, OBJECTIVES).run() == 5


def test_a_second_interrupt_gives_the_trial_back(
    study: Study, problem: PTQProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> Metrics:
        raise KeyboardInterrupt

    monkeypatch.setattr(problem, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Worker(study, problem, OBJECTIVES).run()
    assert study.count("waiting") == 6


def test_a_worker_stops_on_request_and_at_its_time_limit(study: Study, problem: PTQProblem) -> None:
    assert Worker(study, problem, OBJECTIVES, stop=lambda: study.count("complete") == 2).run() == 2
    assert Worker(study, problem, OBJECTIVES, end=time.monotonic()).run() == 0


def test_a_worker_runs_the_trials_of_crashed_workers(tmp_path: Path, problem: PTQProblem) -> None:
    study = Study.create(open_journal(RunFolder(tmp_path)), "s", OBJECTIVES.directions)
    assert study is not None
    study.plan(list(problem.space.all_params())[:2], problem.space)
    other = Study.load(open_journal(RunFolder(tmp_path)), "s")
    assert other is not None
    assert other.claim() is not None
    assert Worker(study, problem, OBJECTIVES, waits_for_others=False).run() == 1
    assert study.count("running") == 1
    assert Worker(study, problem, OBJECTIVES).run() == 1
    assert study.count("complete") == 2


@pytest.mark.parametrize("storage", [StudyStorage(backend := InMemoryStorage(), Heartbeats(backend, 5.0))])
def test_a_waiting_worker_ends_when_others_have_finished(
    study: Study, problem: PTQProblem, storage: StudyStorage
) -> None:
    other = Study.load(storage, "s")
    assert other is not None
    trial = other.claim()
    assert trial is not None
    ticks = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 7:  # it has run five trials, and now waits
            other.complete(trial, [0.5, 1.0], {"accuracy": 0.5, "bitops": 1.0})

    assert Worker(study, problem, OBJECTIVES, tick=tick).run() == 5
    assert study.count("complete") == 6


def test_a_result_after_another_worker_finished_the_trial_is_dropped(
    study: Study, problem: PTQProblem, storage: StudyStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = problem.measure
    calls: Iterator[int] = iter(range(10))

    def overtaken(*arguments: object) -> Metrics:
        if next(calls) == 0:
            loaded = optuna.load_study(study_name="s", storage=storage.backend)
            storage.backend.set_trial_state_values(loaded.trials[0]._trial_id, TrialState.COMPLETE, [0.25, 1.0])
        return measure(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(problem, "measure", overtaken)
    assert Worker(study, problem, OBJECTIVES).run() == 6
    trials = optuna.load_study(study_name="s", storage=storage.backend).trials
    assert trials[0].values == [0.25, 1.0]
    assert {trial.state for trial in trials} == {TrialState.COMPLETE}


def test_a_resumed_worker_prunes_by_earlier_trials(
    storage: StudyStorage, study: Study, problem: PTQProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = iter([0.9, 0.1])

    def measure(_: object, should_continue: ShouldContinue | None) -> Metrics:
        found = {"accuracy": next(accuracies), "bitops": 1.0}
        assert should_continue is not None
        should_continue(found, 1, found["accuracy"])
        return found

    monkeypatch.setattr(PTQProblem, "rungs", {1: 800})
    monkeypatch.setattr(problem, "measure", measure)
    Worker(study, problem, OBJECTIVES, prunes=True, stop=lambda: study.count("complete") == 1).run()
    later = Study.load(storage, "s")
    assert later is not None
    Worker(later, problem, OBJECTIVES, prunes=True, stop=lambda: study.count("waiting") == 4).run()
    assert [record.state for record in study.records()][:2] == ["complete", "pruned"]
