"""The benchmarks run. The measured times are not checked, because they depend on the machine."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from benchmarks import pages
from benchmarks import results as results_page
from benchmarks.__main__ import main
from benchmarks.cases import run_cases
from benchmarks.graph import flow
from benchmarks.models import ResNet18
from benchmarks.results import Result, table, write_page
from benchmarks.timing import cpu_times, one_thread, process_times

ROOT = Path(__file__).parents[1]


def test_times_are_cpu_times() -> None:
    asleep, awake = cpu_times(lambda: time.sleep(0.02), lambda: sum(range(10**5)), repeats=3, warm_up=0)
    assert 0 <= asleep < 0.02
    assert awake > 0
    (child,) = process_times([sys.executable, "-c", ""], repeats=1)
    assert child > 0


def test_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_resnet_18_has_the_published_size() -> None:
    model = ResNet18()
    # ResNet-18 of He et al. has 11,689,512 parameters for 1000 classes.
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_689_512
    small = ResNet18(num_classes=3, width=4).eval()
    graph = flow(small, torch.randn(1, 3, 32, 32))
    assert graph.model(torch.randn(2, 3, 32, 32)).shape == (2, 3)


def test_result_is_ok_below_its_limit(tmp_path: Path) -> None:
    results = [Result("a", 1.5, 2.0, "ms"), Result("b", 2.0, 2.0, "x forward")]
    assert [result.ok for result in results] == [True, False]
    assert table(results).splitlines()[2].split() == ["a", "1.50", "ms", "<", "2", "ms", "yes"]
    page = write_page("things", results, "Times of a and b.", tmp_path / "new").read_text()
    assert "| b " in page
    assert torch.__version__ in page


def test_rows_that_were_not_measured_again_stay_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_page, "FOLDER", tmp_path)
    first = [
        Result("a (float: 9 %), 4 bits", 0.999, 1.0, "x", measured_on="2026-01-01"),
        Result("b", 2.0, 3.0, "x"),
    ]
    write_page("things", first, "Two.", tmp_path)
    again = [Result("b", 4.0, 3.0, "x", measured_on="2026-01-02"), Result("c", 1.0, math.inf, "x")]
    write_page("things", again, "Three.", tmp_path, keep_others=True)
    assert [list(row.values()) for row in results_page.read_rows("things", tmp_path)] == [
        ["a (float: 9 %), 4 bits", "1.00 x", "< 1 x", "yes", "2026-01-01"],
        ["b", "4.00 x", "< 3 x", "NO", "2026-01-02"],
        ["c", "1.00 x", "", "", ""],
    ]


def test_only_wanted_cases_run() -> None:
    def case(quick: bool) -> Iterator[Result]:
        yield Result("a", 1.0, 2.0, "x")

    def fails(quick: bool) -> Iterator[Result]:
        raise AssertionError("not wanted")

    (found,) = run_cases({"net-w4": case, "other": fails}, ["net"], quick=True)
    assert found.measured_on.startswith("20")


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_figures_of_a_page_are_those_of_the_results(page: Path) -> None:
    text = page.read_text()
    assert pages.fill(text) == text, 'run `python -c "from benchmarks import pages; pages.update()"`'


def test_tables_are_made_from_results(tmp_path: Path) -> None:
    what = "1024 -> 1024, batch 256"
    results = [
        Result("quantise 256 x 1024: log", 2.3, 5.0, "x copy_"),
        Result("quantise 256 x 1024: ternary", 6.9, 5.0, "x copy_"),
        Result("quantise 256 x 1024: log, eager", 14.0, math.inf, "x copy_"),
        *(
            Result(f"LinearInteger {what}, {mode}", 1.02, 1.15, "x nn.Linear")
            for mode in ("evaluation", "training step")
        ),
        *(
            Result(f"peer: torchao, 8 bits, {what}, {mode}", 1.5, math.inf, "x nn.Linear")
            for mode in ("evaluation", "training step")
        ),
    ]
    write_page("formats", results, "Times.", tmp_path)

    def cells(name: str) -> list[list[str]]:
        lines = pages.fill(f"<!-- results: {name} -->\nold\n<!-- end -->", tmp_path).splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]

    assert cells("rounding") == [["log", "2.30", "< 5", "14.00"], ["ternary", "6.90", "< 5, missed", ""]]
    assert cells("large-layer") == [
        ["LinearInteger", "1.02 x nn.Linear", "1.02 x nn.Linear"],
        ["torchao, 8 bits", "1.50 x nn.Linear", "1.50 x nn.Linear"],
    ]
    assert cells("layers")[0] == [
        "LinearInteger 1024 -> 1024, batch 256, evaluation",
        "1.02 x nn.Linear",
        "< 1.15 x nn.Linear",
    ]
    assert "run `python -m benchmarks cnn`" in pages.fill("<!-- results: cnn -->\n<!-- end -->", tmp_path)


def test_unknown_benchmark_error_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["grahp"])
    assert "unknown benchmark 'grahp'; known: graph" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["qat", "--cases", "jcs"])
    assert "'qat' has no case 'jcs'; known: jsc-toy, jsc-s, resnet32" in capsys.readouterr().err


@pytest.mark.slow
def test_all_benchmarks_run() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "graph: 6 measurements ran" in done.stdout
