"""The `info` of passes as tables and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest
import torch

from chop.transforming.pass_results import MAX_ROWS, InfoTable, tables_of, to_json


@dataclass(frozen=True)
class Pair:
    a: int
    b: float


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"total": 3, "names": ["a", "b"]}, [(("result", "value"), [("total", "3"), ("names", "a, b")])]),
        ({"by_node": {"a": 1, "b": None}}, [(("by_node", "value"), [("a", "1"), ("b", "")])]),
        ({"chosen": {"n": {"w": {"x": 1}}}}, [(("chosen", "x"), [["n.w", "1"]])]),
        ({"a": {"x": 1}, "b": {"x": 2, "y": "z"}}, [(("name", "x", "y"), [["a", "1", ""], ["b", "2", "z"]])]),
        ({"rows": [{"x": 1}, {"x": 2}]}, [(("rows", "x"), [["0", "1"], ["1", "2"]])]),
        ({"table": pd.DataFrame({"x": [1.5]})}, [(("table", "x"), [["0", "1.5"]])]),
        ({"total": 3, "unknown": []}, [(("result", "value"), [("total", "3")])]),
        ({"graph": object()}, []),
        ({}, []),
    ],
)
def test_what_has_the_form_of_a_table_is_shown(info: dict[str, Any], expected: list[Any]) -> None:
    assert tables_of(info) == [InfoTable(headers, rows) for headers, rows in expected]


def test_long_tables_are_cut() -> None:
    (table,) = tables_of({"by_node": {f"n{i}": i for i in range(MAX_ROWS + 5)}})
    assert len(table.rows) == MAX_ROWS + 1
    assert table.rows[-1] == ["and 5 more", ""]


def test_everything_has_a_form_in_json() -> None:
    info = {
        "t": torch.tensor([1.0, float("nan")]),
        "big": torch.zeros(2000),
        "pair": Pair(1, 0.5),
        3: {1},
        "o": int,
    }
    assert to_json(info) == {
        "t": [1.0, "nan"],
        "big": {"shape": [2000], "dtype": "torch.float32"},
        "pair": {"a": 1, "b": 0.5},
        "3": [1],
        "o": "<class 'int'>",
    }
