"""The overview has a column for each option in which runs of one action differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from chop.reporting.view.columns import MAX_OPTION_COLUMNS, differing_options
from chop.reporting.view.overview import overview_page
from chop.reporting.view.run_record import list_records
from reporting.view.conftest import train_summary, transform_summary

AddRun = Callable[..., Path]


def test_options_that_differ_within_an_action_are_columns(add_run: AddRun, project: Path) -> None:
    add_run("a", train_summary(0.5), 'batch_size = 64\nseed = 0\nname = "a"\n')
    add_run("b", train_summary(0.6), 'batch_size = 128\nseed = 0\nname = "b"\n')
    add_run("c", transform_summary(0.5, 8.0, 1), "batch_size = 512\nseed = 7\n")  # the only one of its action
    records = tuple(list_records(project))
    columns, num_others = differing_options(records)
    assert [(column.key, column.title) for column in columns] == [("batch_size", "batch_size")]
    assert num_others == 0
    assert [columns[0].text(record) for record in records] == ["512", "128", "64"]
    page = overview_page(project, records)
    assert re.findall(r'<td class="option"[^>]*>(\w+)</td>', page) == ["512", "128", "64"]


def test_titles_are_the_shortest_ends_that_are_unique(add_run: AddRun, project: Path) -> None:
    text = "[passes.quantize.{0}.config]\nweight_width = {1}\ndata_in_width = 8\n"
    add_run("a", transform_summary(0.5, 8.0, 1), text.format("linear", 8))
    add_run("b", transform_summary(0.5, 8.0, 1), text.format("linear", 4) + text.format("conv2d", 4))
    columns, _ = differing_options(tuple(list_records(project)))
    titles = {column.key: column.title for column in columns}
    assert titles["passes.quantize.linear.config.weight_width"] == "linear.config.weight_width"
    assert titles["passes.quantize.conv2d.config.data_in_width"] == "data_in_width"


def test_a_title_says_whose_name_it_is(add_run: AddRun, project: Path) -> None:
    for name in ("integer", "mxfp"):
        add_run(name, transform_summary(0.5, 8.0, 1), f"[passes.quantize.linear.config]\nname = '{name}'\n")
    columns, _ = differing_options(tuple(list_records(project)))
    assert [column.title for column in columns] == ["linear.config.name"]


def test_few_columns_are_shown_and_the_others_counted(add_run: AddRun, project: Path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        add_run(name, train_summary(0.5), "".join(f"option_{i} = {value}\n" for i in range(MAX_OPTION_COLUMNS + 2)))
    records = list_records(project)
    assert overview_page(project, records).count('<th scope="col" class="option"') == MAX_OPTION_COLUMNS
    assert "2 more options differ between runs: compare them." in overview_page(project, records)
