"""What must be equal for a study to be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chop.config import SearchConfig
from chop.config.search import SearchTable, SpaceTable, StrategyTable
from chop.runs import Experiment
from chop.searching.spec import SearchSpec
from chop.searching.study.identity import check_identity, identity
from chop.searching.study.study import Study

LAYER = {"name": ["integer"], "data_in_width": [4, 8], "data_in_frac_width": ["NA"]}
CONFIG = SearchConfig(
    model="toy",
    dataset="toy_tiny",
    search=SearchTable(SpaceTable(seed={"linear": {"config": LAYER}}), StrategyTable(setup={"n_trials": 5})),
)


def study_with(stored: Mapping[str, Any]) -> Study:
    return cast(Study, SimpleNamespace(name="old", read_note=lambda key: stored))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"setup": {"sampler": "random"}}, "its strategy differs"),
        ({"hw_runner": {"bitops": {"convention": "ebops"}}}, "its metrics differ"),
    ],
)
def test_a_different_search_is_refused_and_another_number_of_trials_is_not(
    changes: dict[str, Any], message: str
) -> None:
    experiment, table = Experiment.load(CONFIG), CONFIG.search
    stored = study_with(identity(SearchSpec.read(CONFIG), experiment))

    def changed(**values: Any) -> SearchConfig:
        return replace(CONFIG, search=replace(table, strategy=replace(table.strategy, **values)))

    check_identity(stored, identity(SearchSpec.read(changed(setup={"n_trials": 9})), experiment))
    with pytest.raises(ValueError, match=message):
        check_identity(stored, identity(SearchSpec.read(changed(**changes)), experiment))


def test_a_study_of_an_earlier_version_is_refused_in_one_sentence() -> None:
    own = identity(SearchSpec.read(CONFIG), Experiment.load(CONFIG))
    stored = {key: value for key, value in own.items() if key != "version"}
    with pytest.raises(ValueError, match="study 'old' was stored by an earlier version of chop"):
        check_identity(study_with(stored), own)
