"""What is printed at the end of a transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from chop.dataset import DatasetInfo
from chop.display.html import shown_in_notebook
from chop.display.tables import plain_table
from chop.passes import PASSES
from chop.tasks import Evaluation
from chop.training.terminal import print_scores
from chop.transforming.pass_results import tables_of
from chop.transforming.pipeline import Comparison, numbers_in

MAX_LAYERS_PRINTED = 20


def print_outcome(info: DatasetInfo, results: Mapping[str, Evaluation], comparisons: Sequence[Comparison]) -> None:
    """Print what the passes measured, and the metrics of the task on the test split, before and after."""
    if comparisons:
        rows = [(each.pass_name, each.measure, _number(each.before), _number(each.after)) for each in comparisons]
        headers, align = ("pass", "measure", "before", "after"), ("left", "left", "right", "right")
        print("\n" + plain_table(headers, rows, align))
    if results:
        print_scores(f"data: {info.title}, test split", {name: each.metrics for name, each in results.items()})


def print_infos(infos: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what passes returned, as tables where that is possible; numbers that are compared are left out."""
    for name, info in infos.items():
        compared = numbers_in(info) if PASSES[name].compare else {}
        for table in tables_of({key: value for key, value in info.items() if key not in compared}):
            print(f"\n{name}")
            if shown_in_notebook(table.headers, table.rows):
                continue
            align = ("left", *("right",) * (len(table.headers) - 1))
            print(plain_table(table.headers, table.rows, align))


def print_layers(model: nn.Module, paths: Sequence[str]) -> None:
    """Print the layers at these paths of a model; of many, the first ones."""
    for path in paths[:MAX_LAYERS_PRINTED]:
        print(f"{path}: {model.get_submodule(path)}")
    if len(paths) > MAX_LAYERS_PRINTED:
        print(f"... and {len(paths) - MAX_LAYERS_PRINTED} more quantised layers")


def _number(value: float | None) -> str:
    """Return a number without commas, as in the `info` of the pass that measured it."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6g}"
