"""The identity of a search, which must not change with names in the source."""

from __future__ import annotations

import pytest

from chop.config import SearchConfig
from chop.config.search import SearchTable, SpaceTable, StrategyTable
from chop.runs import Experiment
from chop.searching.spec import SearchSpec
from chop.searching.study.identity import identity

LAYER = {"name": ["integer"], "data_in_width": [4, 8], "data_in_frac_width": ["NA"]}


@pytest.mark.parametrize(
    ("strategy", "digest"),
    [
        ("optuna", "43bd26adb6ea"),
        ("ilp", "64e2510b7330"),
        ("sensitivity", "ddb203ffa55f"),
        ("learned", "0700f4797331"),
    ],
)
def test_studies_of_earlier_versions_have_the_same_identity(strategy: str, digest: str) -> None:
    """The digests were computed by the commit before classes and fields were renamed."""
    table = SearchTable(SpaceTable(seed={"linear": {"config": LAYER}}), StrategyTable(name=strategy))
    config = SearchConfig(model="toy", dataset="toy_tiny", search=table)
    found = identity(SearchSpec.read(config), Experiment.load(config))
    assert found["metrics"].startswith("e30e0c07abf6")
    assert found["strategy"].startswith(digest)
    assert found["space"].startswith("0426570ba450")
