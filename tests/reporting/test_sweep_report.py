"""The report of a sweep: the table, the best setting and the plot, instead of the layers of the original model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chop
from chop.config import ReportConfig, SweepConfig
from chop.reporting.run_report import report
from chop.runs import RunFolder
from chop.sweeping.sweep import sweep

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    options = {"project_dir": tmp_path_factory.mktemp("project"), "max_drop": 100.0}
    return sweep(SweepConfig(model="toy", dataset="toy_tiny", widths="4,8", **options))  # type: ignore[arg-type]


def test_the_page_has_all_settings_and_marks_the_best(swept: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    page = report(ReportConfig(run=swept.path)).read_text()
    lines = page.split("<tbody>")[1].split("</tbody>")[0].split("<tr")[1:]
    cells = [re.findall("<td>([^<]*)</td>", line) for line in lines]
    assert [row[:2] for row in cells] == [["unchanged", "32"], ["integer", "4"], ["integer", "8"]]
    assert [line.startswith(' class="best"') for line in lines] == [False, True, False]  # 100 points may be lost
    assert page.count("data:image/png;base64,") == 1
    assert "<script" not in page
    command = f"transform --config {swept.sweep_config} --report"
    assert command in page
    printed = capsys.readouterr().out
    assert command in printed
    assert "bits per weight" in printed


def test_python_writes_the_same_page(swept: RunFolder, tmp_path: Path) -> None:
    path = chop.report(swept.path, output=tmp_path / "sweep.html")
    assert path.read_text() == report(ReportConfig(run=swept.path)).read_text()


def test_a_corrupt_sweep_is_one_sentence(swept: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder.create(tmp_path, "copy")
    copy.config.write_bytes(swept.config.read_bytes())
    copy.write_summary({**swept.read_summary(), "rows": 3})
    with pytest.raises(ValueError, match=r"summary.json is corrupt: it has no settings of a sweep"):
        report(ReportConfig(run=copy.path))
