"""Commands with `--accelerator`: each does its work on that device, with the same result as on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import chop
from chop.cli import entry
from chop.runs import open_run
from chop.searching.strategies import STRATEGIES
from device.other import COUNTS, NAME

pytestmark = pytest.mark.slow
TRAINED = ("toy", "toy_tiny", "--max-epochs", "1", "--report-to", "none", "--learning-rate", "0.01")
QUANTIZE = """
[passes.quantize]
by = "type"
[passes.quantize.linear.config]
name = "integer"
data_in_width = 6
weight_width = 5
[passes.calibrate]
[passes.gptq]
[passes.prune]
sparsity = 0.3
"""
SEARCH = """
[search.search_space]
setup.by = "type"
[search.search_space.seed.default.config]
name = ["NA"]
[search.search_space.seed.linear.config]
name = ["integer"]
data_in_width = [4, 8]
data_in_frac_width = ["NA"]
weight_width = [2, 4, 8]
weight_frac_width = ["NA"]
[search.strategy]
name = "STRATEGY"
sw_runner.basic_evaluation.num_samples = 200
setup.n_trials = 5
[search.strategy.metrics]
loss.direction = "minimize"
bitops.direction = "minimize"
"""


@pytest.fixture
def on_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command on the CPU and on the other device, and returns both runs."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[chop.Run, chop.Run]:
        runs = []
        for accelerator in ("cpu", NAME):
            torch.manual_seed(0)
            COUNTS.clear()
            folder = tmp_path / accelerator
            assert entry.main([*words, "--accelerator", accelerator, "--project-dir", str(folder)]) == 0
            runs.append(open_run(sorted(folder.glob("toy_*"), key=lambda path: path.stat().st_mtime)[-1]))
        assert COUNTS["copies"], "the command has not moved anything to the device"
        return runs[0], runs[1]

    return run


def close(found: Any, expected: Any) -> None:
    """Check that numbers in nested values are nearly the same, and all else the same."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            close(found[key], value)
    elif isinstance(expected, list):
        for pair in zip(found, expected, strict=True):
            close(*pair)
    else:
        assert found == (pytest.approx(expected, rel=1e-4) if isinstance(expected, float) else expected)


def test_train(on_both: Any) -> None:
    on_cpu, there = on_both("train", *TRAINED)
    close(there.summary["test"], on_cpu.summary["test"])
    assert there.summary["device"] == f"{NAME}:0"


@pytest.fixture
def trained(tmp_path: Path) -> str:
    run = chop.train("toy", "toy_tiny", max_epochs=1, accelerator="cpu", project_dir=tmp_path / "trained")
    return str(run.folder.path)


def test_test(on_both: Any, trained: str) -> None:
    on_cpu, there = on_both("test", "toy", "toy_tiny", "--load", trained)
    close(there.summary["test"], on_cpu.summary["test"])


def test_transform(on_both: Any, trained: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(QUANTIZE)
    on_cpu, there = on_both("transform", "toy", "toy_tiny", "--config", "a.toml", "--load", trained, "--report")
    close(there.summary["test"], on_cpu.summary["test"])


def test_sweep(on_both: Any, trained: str) -> None:
    words = ("sweep", "toy", "toy_tiny", "--load", trained, "--formats", "integer,mxfp", "--widths", "4,8")
    on_cpu, there = on_both(*words)
    close(there.summary["rows"], on_cpu.summary["rows"])


SETUP = {"learned": "\nsetup.steps = 40\nsetup.finetune_steps = 5"}
"""Keys of strategies that take long with their defaults."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_search(on_both: Any, trained: str, tmp_path: Path, strategy: str) -> None:
    (tmp_path / "a.toml").write_text(
        SEARCH.replace("STRATEGY", strategy).replace("n_trials = 5", "n_trials = 5" + SETUP.get(strategy, ""))
    )
    words = ("search", "toy", "toy_tiny", "--config", "a.toml", "--load", trained)
    on_cpu, there = on_both(*words)
    logs = [json.loads((run.folder.path / "search" / "log.json").read_text()) for run in (on_cpu, there)]
    close(*([trial["metrics"] for trial in log["trials"]] for log in reversed(logs)))


@pytest.mark.parametrize("target", ["onnx", "qonnx", "safetensors"])
def test_report_explain_export(on_both: Any, trained: str, tmp_path: Path, target: str) -> None:
    (tmp_path / "a.toml").write_text(QUANTIZE)
    _, there = on_both("transform", "toy", "toy_tiny", "--config", "a.toml", "--load", trained)
    run = str(there.folder.path)
    assert entry.main(["report", run, "--accelerator", NAME]) == 0
    assert entry.main(["explain", run, "seq_blocks_2", "--accelerator", NAME]) == 0
    assert entry.main(["export", run, "--format", target, "--accelerator", NAME]) == 0
