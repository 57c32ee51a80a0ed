"""What holds for every registered statistic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from chop.info.parameters import field_table
from chop.statistics import STATISTICS, Profile, Statistic, TensorKey, make_statistic

LAYOUTS: tuple[dict[str, Any], ...] = ({}, {"dims": [0, 2]}, {"keep": [1]})
KEY = TensorKey("node", "args", "data_in_0")


def batches() -> list[Tensor]:
    """Three batches of different sizes, with a NaN, zeros and an outlier."""
    generator = torch.Generator().manual_seed(0)
    found = [torch.randn(rows, 3, 4, generator=generator) for rows in (5, 1, 8)]
    found[0][0, 0, 0], found[1][0, 1], found[2][7, 2, 3] = float("nan"), 0.0, 1e4
    return found


def updated(name: str, options: dict[str, Any], tensors: list[Tensor]) -> Statistic:
    statistic = make_statistic(name, options, "test")
    for tensor in tensors:
        statistic.update(tensor)
    return statistic


def assert_same(found: Statistic, expected: Statistic) -> None:
    results, wanted = found.compute(), expected.compute()
    assert results.keys() == wanted.keys()
    for key, value in wanted.items():
        torch.testing.assert_close(results[key], value, rtol=1e-12, atol=1e-12, equal_nan=True, msg=key)


def in_file(statistic: Statistic, path: Path) -> Statistic:
    Profile({KEY: {statistic.name: statistic}}, 1).save(path)
    return Profile.load(path).collections[KEY][statistic.name]


@pytest.mark.slow
@pytest.mark.parametrize("name", STATISTICS)
def test_every_statistic_and_each_of_its_options_is_documented(name: str) -> None:
    assert STATISTICS[name].name == name
    assert (STATISTICS[name].__doc__ or "").partition("\n")[0].endswith((".", ":"))
    for option, *_, meaning, _ in field_table(STATISTICS[name]).rows:
        assert meaning, f"option '{option}' of statistic '{name}' has no documentation"


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", STATISTICS)
def test_merged_and_saved_statistics_equal_one_run(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    first, *others = batches()
    expected = updated(name, options, [first, *others])
    merged = in_file(updated(name, options, [first]), tmp_path / "first")
    merged.merge(in_file(updated(name, options, others), tmp_path / "others"))
    assert_same(merged, expected)
    assert_same(in_file(merged, tmp_path / "merged"), expected)


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_without_values_merges_with_any_other(name: str, tmp_path: Path) -> None:
    empty = in_file(make_statistic(name, None, "test"), tmp_path / "empty")
    assert empty.compute() == {"count": 0}
    expected = updated(name, {}, batches())
    empty.merge(expected)
    assert_same(empty, expected)


@pytest.mark.parametrize("name", STATISTICS)
def test_a_misspelt_option_is_reported_with_the_right_name(name: str) -> None:
    with pytest.raises(ValueError, match="unknown key 'dim'; did you mean 'dims'"):
        make_statistic(name, {"dim": "all"}, "test")


@pytest.mark.parametrize("name", STATISTICS)
def test_other_options_and_other_statistics_do_not_merge(name: str) -> None:
    statistic: Any = make_statistic(name, None, "test")
    other = next(each for each in STATISTICS if not issubclass(STATISTICS[each], STATISTICS[name]))
    for different in (make_statistic(name, {"dims": [0]}, "test"), make_statistic(other, None, "test")):
        with pytest.raises(ValueError, match="only statistics with the same options can be merged"):
            statistic.merge(different)
