"""The benchmarks run. What they measure is not asserted here: times belong to machines, not to tests."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from benchmarks.__main__ import main
from benchmarks.graph import flow
from benchmarks.models import ResNet18
from benchmarks.results import Result, table, write_page
from benchmarks.timing import cpu_times, one_thread, process_times

ROOT = Path(__file__).parents[1]


def test_times_are_of_the_processor_and_not_of_the_clock() -> None:
    asleep, awake = cpu_times(lambda: time.sleep(0.02), lambda: sum(range(10**5)), repeats=3, warm_up=0)
    assert 0 <= asleep < 0.02
    assert awake > 0
    (child,) = process_times([sys.executable, "-c", ""], repeats=1, warm_up=0)
    assert child > 0


def test_one_thread_is_given_back() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_the_resnet_is_one() -> None:
    model = ResNet18()
    # 11,689,512 is the number that He et al.'s ResNet-18 has with 1000 classes.
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_689_512
    small = ResNet18(num_classes=3, width=4).eval()
    graph = flow(small, torch.randn(1, 3, 32, 32))
    assert graph.model(torch.randn(2, 3, 32, 32)).shape == (2, 3)


def test_a_result_is_ok_under_its_bar(tmp_path: Path) -> None:
    results = [Result("a", 1.5, 2.0, "ms"), Result("b", 2.0, 2.0, "x forward")]
    assert [result.ok for result in results] == [True, False]
    assert table(results).splitlines()[2].split() == ["a", "1.50", "ms", "<", "2", "ms", "yes"]
    page = write_page("things", results, "Of a and b.", tmp_path / "new").read_text()
    assert "| b " in page
    assert torch.__version__ in page


def test_an_unknown_benchmark_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["grahp"])
    assert "unknown benchmark 'grahp'; known: graph" in capsys.readouterr().err


@pytest.mark.slow
def test_all_benchmarks_run() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "graph: 6 measurements ran" in done.stdout
