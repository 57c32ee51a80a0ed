"""Params are drawn once, never twice the same, and from a limited number of earlier trials."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from chop.searching.space import Space
from chop.searching.space.dimension import equality_key
from chop.searching.space.space import OptionChoices
from chop.searching.strategies.optuna import OptunaStrategy
from chop.searching.study import drawing
from chop.searching.study.storage import open_memory
from chop.searching.study.study import DRAWN, Study

SPACE = Space((), (OptionChoices("s", {name: tuple(range(4)) for name in "abc"}),))
SAMPLERS = ("tpe", "nsga2", "nsga3")


def run_study(sampler: str, num_trials: int, space: Space = SPACE, stops: tuple[int, ...] = ()) -> Study:
    """Run trials with two objectives: the sum of a configuration, and the difference of two of its values.

    The study is opened again before the trials `stops`.
    """
    storage = open_memory()
    study = Study.create(storage, "s", ["maximize", "minimize"])
    assert study is not None
    study.plan([{}] * num_trials, space)
    strategy = OptunaStrategy(sampler=sampler)
    for number in range(num_trials):
        if number in stops:
            study = Study.load(storage, "s")
            assert study is not None
        if number in (0, *stops):
            study.use_samplers(lambda number, num_earlier: strategy.make_sampler(0, number, num_earlier))
        trial = study.claim()
        assert trial is not None
        chosen = study.configuration(trial, space)["s"]
        study.complete(trial, [sum(chosen.values()), abs(chosen["a"] - chosen["b"])], {})
    return study


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_all_configurations_of_a_space_are_drawn_once(sampler: str) -> None:
    params = [record.params for record in run_study(sampler, 64).records()]
    assert len({equality_key(each) for each in params}) == 64


def test_a_space_that_is_exhausted_is_drawn_from_again() -> None:
    small = Space((), (OptionChoices("s", {"a": (0, 1), "b": (0, 1)}),))
    params = [record.params for record in run_study("tpe", 6, small).records()]
    assert len({equality_key(each) for each in params}) == 4


@pytest.mark.slow
def test_tpe_looks_at_a_limited_number_of_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MAX_TRIALS", 10)
    seen: list[int] = []
    original = optuna.samplers.TPESampler.sample_relative

    def counting(self: optuna.samplers.TPESampler, study: optuna.Study, *arguments: Any) -> dict[str, Any]:
        seen.append(len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))))
        return original(self, study, *arguments)

    monkeypatch.setattr(optuna.samplers.TPESampler, "sample_relative", counting)
    run_study("tpe", 60)
    assert max(seen) == 19


def test_pareto_optimal_trials_are_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MAX_TRIALS", 8)
    study = optuna.create_study(directions=["maximize", "minimize"])
    for values in ([9.0, 1.0], [8.0, 0.5], *[[float(number % 5), 2.0] for number in range(46)]):
        study.add_trial(optuna.create_trial(values=values))
    copied: list[list[float]] = []

    class Looking(optuna.samplers.TPESampler):
        def sample_relative(self, study: optuna.Study, *_: object) -> dict[str, Any]:
            copied.extend(trial.values for trial in study.get_trials(states=(TrialState.COMPLETE,)))
            return {}

    drawer = drawing.ParamsDrawer(study.directions, lambda number, num_earlier: Looking())
    drawer.draw(study.trials, 48, SPACE, set())
    assert copied == [study.trials[number].values for number in (0, 1, 42, 43, 44, 45, 46, 47)]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_work_per_trial_does_not_grow(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing the dimensions of all earlier trials for each trial made 1,000 trials of NSGA-II take minutes."""
    compared: list[int] = []
    original = optuna.distributions.CategoricalDistribution.__eq__

    def counting(self: object, other: object) -> bool:
        compared.append(1)
        return bool(original(self, other))  # type: ignore[arg-type]

    monkeypatch.setattr(optuna.distributions.CategoricalDistribution, "__eq__", counting)
    run_study(sampler, 15)
    num_before = len(compared)
    run_study(sampler, 60)
    assert len(compared) - num_before <= 8 * num_before


def test_half_stored_params_are_completed_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_memory()
    study = Study.create(storage, "s", ["maximize"])
    assert study is not None
    study.plan([{}], SPACE)
    study.use_samplers(lambda number, num_earlier: OptunaStrategy().make_sampler(0, number, num_earlier))
    trial = study.claim()
    assert trial is not None
    with monkeypatch.context() as patch:
        patch.setattr(storage.backend, "set_trial_param", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            study.configuration(trial, SPACE)
    study.give_back(trial)
    study.use_samplers(lambda number, num_earlier: OptunaStrategy().make_sampler(99, number, num_earlier))
    again = study.claim()
    assert again is not None
    assert DRAWN in again.system_attrs
    drawn = SPACE.params(study.configuration(again, SPACE))
    study.complete(again, [1.0], {})
    (record,) = study.records()
    assert record.params == drawn
    assert storage.backend.get_trial(again._trial_id).params == drawn  # samplers of later trials see them


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_study_that_was_stopped_draws_what_one_that_was_not_stopped_draws(
    sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several generations of the genetic algorithms, and several limits of the trials that TPE looks at."""
    monkeypatch.setattr(drawing, "MAX_TRIALS", 30)
    space = Space((), (OptionChoices("s", {name: tuple(range(4)) for name in "abcde"}),))
    expected = [record.params for record in run_study(sampler, 110, space).records()]
    stopped = run_study(sampler, 110, space, stops=(1, 25, 30, 75, 100))
    assert [record.params for record in stopped.records()] == expected
