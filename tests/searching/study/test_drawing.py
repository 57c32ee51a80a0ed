"""Params are drawn once, never twice the same, and from a limited number of earlier trials."""

from __future__ import annotations

from typing import Any

import optuna
import pytest

from chop.searching.space import Space
from chop.searching.space.dimension import equality_key
from chop.searching.space.space import OptionChoices
from chop.searching.strategies.optuna import OptunaStrategy
from chop.searching.study import history
from chop.searching.study.drawing import DRAWN
from chop.searching.study.history import LimitedHistory
from chop.searching.study.storage import open_memory
from chop.searching.study.study import Study

SPACE = Space((), (OptionChoices("s", {name: tuple(range(4)) for name in "abc"}),))
SAMPLERS = ("tpe", "nsga2", "nsga3")


def run_study(sampler: str, num_trials: int, space: Space = SPACE) -> Study:
    """Run trials with two objectives: the sum of a configuration, and the difference of two of its values."""
    study = Study.create(open_memory(), "s", ["maximize", "minimize"])
    assert study is not None
    study.plan([{}] * num_trials, space)
    strategy = OptunaStrategy(sampler=sampler)
    study.use_samplers(lambda number, num_earlier: strategy.make_sampler(0, number, num_earlier))
    while (trial := study.claim()) is not None:
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
    monkeypatch.setattr(history, "MAX_TRIALS", 20)
    seen: list[int] = []
    original = LimitedHistory._get_trials

    def counting(self: LimitedHistory, *arguments: Any, **options: Any) -> list[optuna.trial.FrozenTrial]:
        found = original(self, *arguments, **options)
        seen.append(len(found))
        return found

    monkeypatch.setattr(LimitedHistory, "_get_trials", counting)
    run_study("tpe", 60)
    assert max(seen) == 21  # and the running trial


def test_pareto_optimal_trials_are_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_TRIALS", 8)
    study = optuna.create_study(directions=["maximize", "minimize"])
    for values in ([9.0, 1.0], [8.0, 0.5], *[[float(number % 5), 2.0] for number in range(50)]):
        study.add_trial(optuna.create_trial(values=values))
    limited = LimitedHistory(study)
    limited.refresh()
    assert [trial.number for trial in limited._get_trials(deepcopy=False)] == [0, 1, 46, 47, 48, 49, 50, 51]


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
    assert len(compared) - num_before <= 5 * num_before


def test_half_stored_params_are_completed_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study.create(open_memory(), "s", ["maximize"])
    assert study is not None
    study.plan([{}], SPACE)
    study.use_samplers(lambda number, num_earlier: OptunaStrategy().make_sampler(0, number, num_earlier))
    trial = study.claim()
    assert trial is not None
    with monkeypatch.context() as patch:
        patch.setattr(study._storage, "set_trial_param", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
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
    assert study._storage.get_trial(again._trial_id).params == drawn  # samplers of later trials see them
