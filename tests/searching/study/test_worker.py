"""One worker: what it does with the trials that it claims."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from chop.runs import RunFolder
from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.evaluation.problem import Judge, Metrics
from chop.searching.evaluation.ptq import Problem
from chop.searching.study.storage import Place, open_journal, open_memory
from chop.searching.study.study import Study
from chop.searching.study.worker import Worker

OBJECTIVES = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))


@pytest.fixture
def place() -> Place:
    return open_memory()


@pytest.fixture
def study(place: Place, problem: Problem) -> Study:
    made = Study.create(place, "s", OBJECTIVES.directions)
    assert made is not None
    made.plan(list(problem.space.points())[:6], problem.space)
    return made


def test_all_trials_are_measured_as_the_problem_measures_them(study: Study, problem: Problem) -> None:
    assert Worker(study, problem, OBJECTIVES).run() == 6
    for record in study.records():
        assert dict(record.metrics) == problem.measure(problem.space.configs(record.params))


def test_a_configuration_that_is_not_allowed_fails_alone(
    study: Study, problem: Problem, monkeypatch: pytest.MonkeyPatch
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


def test_a_bug_ends_the_worker_and_marks_the_trial(
    study: Study, problem: Problem, monkeypatch: pytest.MonkeyPatch
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
    study: Study, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> Metrics:
        raise KeyboardInterrupt

    monkeypatch.setattr(problem, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Worker(study, problem, OBJECTIVES).run()
    assert study.count("waiting") == 6


def test_it_stops_when_told_or_when_the_time_is_over(study: Study, problem: Problem) -> None:
    assert Worker(study, problem, OBJECTIVES, stop=lambda: study.count("complete") == 2).run() == 2
    assert Worker(study, problem, OBJECTIVES, end=time.monotonic()).run() == 0


def test_it_waits_for_trials_of_others_and_runs_them_if_those_die(tmp_path: Path, problem: Problem) -> None:
    place = open_journal(RunFolder(tmp_path))
    with place.presence:
        study = Study.create(place, "s", OBJECTIVES.directions)
        assert study is not None
        study.plan(list(problem.space.points())[:2], problem.space)
        other = Study.load(
            open_journal(RunFolder(tmp_path)), "s"
        )  # in this process, and so not counted as another worker
        assert other is not None
        assert other.claim() is not None
        assert Worker(study, problem, OBJECTIVES, stays=False, _looked=time.monotonic()).run() == 1
        assert study.count("running") == 1
        assert Worker(study, problem, OBJECTIVES).run() == 1
        assert study.count("complete") == 2


def test_one_that_stays_sees_the_others_finish(study: Study, problem: Problem, place: Place) -> None:
    other = Study.load(place, "s")
    assert other is not None
    trial = other.claim()
    assert trial is not None
    ticks = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 7:  # five trials of its own, and then it waits
            other.complete(trial, [0.5, 1.0], {"accuracy": 0.5, "bitops": 1.0})

    assert Worker(study, problem, OBJECTIVES, tick=tick).run() == 5
    assert study.count("complete") == 6


def test_a_result_that_comes_too_late_is_dropped(
    study: Study, problem: Problem, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = problem.measure
    calls: Iterator[int] = iter(range(10))

    def overtaken(*arguments: object) -> Metrics:
        if next(calls) == 0:
            loaded = optuna.load_study(study_name="s", storage=place.storage)
            place.storage.set_trial_state_values(loaded.trials[0]._trial_id, TrialState.COMPLETE, [0.25, 1.0])
        return measure(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(problem, "measure", overtaken)
    assert Worker(study, problem, OBJECTIVES).run() == 6
    trials = optuna.load_study(study_name="s", storage=place.storage).trials
    assert trials[0].values == [0.25, 1.0]
    assert {trial.state for trial in trials} == {TrialState.COMPLETE}


def test_a_worker_that_goes_on_gives_up_what_those_before_it_would_have(
    place: Place, study: Study, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = iter([0.9, 0.1])

    def measure(_: object, judge: Judge | None) -> Metrics:
        found = {"accuracy": next(accuracies), "bitops": 1.0}
        assert judge is not None
        judge(found, 1, found["accuracy"])
        return found

    monkeypatch.setattr(Problem, "rungs", {1: 800})
    monkeypatch.setattr(problem, "measure", measure)
    Worker(study, problem, OBJECTIVES, halving=True, stop=lambda: study.count("complete") == 1).run()
    later = Study.load(place, "s")
    assert later is not None
    Worker(later, problem, OBJECTIVES, halving=True, stop=lambda: study.count("waiting") == 4).run()
    assert [record.state for record in study.records()][:2] == ["complete", "pruned"]
