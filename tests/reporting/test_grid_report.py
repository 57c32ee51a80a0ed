"""The report of a grid of training runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from chop.config import ReportConfig, TrainConfig
from chop.reporting.run_report import report
from chop.runs import RunFolder
from chop.training.grid import run_grid

pytestmark = pytest.mark.slow


@pytest.fixture
def grid(train_config: TrainConfig) -> RunFolder:
    configs = [replace(train_config, max_epochs=2, batch_size=size) for size in (32, 200)]
    return run_grid(configs, ["batch_size"])


def test_the_page_has_the_table_with_times_and_the_best_row(
    grid: RunFolder, train_config: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    path = report(ReportConfig(run=Path(grid.name), project_dir=train_config.project_dir))
    assert path == grid.report
    page = path.read_text()
    headers, *rows = [line.split(",") for line in grid.grid_table.read_text().splitlines()]
    assert headers[-1] == "seconds"
    cells = [re.findall("<td>([^<]*)</td>", line) for line in page.split("<tr")[2:]]
    assert [row[: len(headers)] for row in cells] == rows
    accuracy = headers.index("test accuracy (best)")
    best = max(range(2), key=lambda i: float(rows[i][accuracy]))
    assert page.split("<tbody>")[1].split("<tr")[1 + best].startswith(' class="best"')
    assert page.count("data:image/png;base64,") == 2  # losses, and validation losses by epoch
    assert "<script" not in page
    assert f"best test accuracy: epoch 2, batch_size {rows[best][1]}" in capsys.readouterr().out
    assert {grid.grid_table.with_suffix(suffix).is_file() for suffix in (".csv", ".md", ".tex")} == {True}


def test_runs_with_a_report_are_linked_and_the_output_can_be_chosen(grid: RunFolder, tmp_path: Path) -> None:
    runs = sorted(path for path in grid.path.parent.iterdir() if path != grid.path)
    (runs[0] / "report.html").write_text("")
    page = report(ReportConfig(run=grid.path, output=tmp_path / "grid.html")).read_text()
    assert re.findall('href="(../[^"]*)"', page) == [f"../{runs[0].name}/report.html"]
    assert not grid.report.exists()


def test_a_corrupt_grid_is_one_sentence(grid: RunFolder) -> None:
    grid.grid_table.write_text("epoch\n")
    with pytest.raises(ValueError, match=r"grid.json is corrupt: grid.csv has other rows"):
        report(ReportConfig(run=grid.path))
