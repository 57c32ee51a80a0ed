"""The log of a search as the page shows it."""

from __future__ import annotations

from typing import Any

import pytest

from chop.page.search_log import read_search_log

TRIAL = {"number": 3, "state": "complete", "metrics": {"a": 1.0}, "front": True, "baseline": None, "toml": "x = 1"}


def test_only_complete_trials_are_shown() -> None:
    trials = [TRIAL, {**TRIAL, "state": "failed"}]
    found = read_search_log({"study": "s", "metrics": {"a": {"direction": "minimize"}}, "trials": trials})
    assert found is not None
    assert [trial["number"] for trial in found["trials"]] == [3]
    assert found["trials"][0]["toml"] == "x = 1"


@pytest.mark.parametrize(
    "change",
    [
        {"trials": None},
        {"study": 3},
        {"metrics": {"a": {"direction": "up"}}},
        {"metrics": {"a": 3}},
        {"trials": [{"number": 1}]},
        {"trials": [3]},
        {"best": {"number": 3}},
    ],
)
def test_corrupt_search_log_is_reported(change: dict[str, Any]) -> None:
    log = {"study": "s", "metrics": {"a": {"direction": "minimize"}}, "trials": [TRIAL]}
    with pytest.raises(ValueError, match="log of the search is corrupt"):
        read_search_log(log | change)


def test_metrics_have_the_title_and_kind_of_their_key_figure() -> None:
    metrics = {"weight_bits": {"direction": "minimize"}, "luts_used": {"direction": "minimize"}}
    trials = [{"number": 0, "state": "complete", "metrics": {"num_rows": 3.0}}]
    found = read_search_log({"study": "s", "metrics": metrics, "trials": trials})
    assert found is not None
    assert found["metrics"] == {
        "weight_bits": {"direction": "minimize", "axis_title": "weight memory"},
        "luts_used": {"direction": "minimize", "axis_title": "luts used"},
    }
    assert found["shown"] == {
        "weight_bits": {"title": "weight memory", "kind": "memory"},
        "luts_used": {"title": "luts used", "kind": "number"},
        "num_rows": {"title": "rows evaluated", "kind": "number"},
    }
