"""Commands killed at random moments: when they are resumed, files are complete and results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import torch

from chop.files import parse_json
from chop.runs import RunFolder

TIME_LIMIT = 300.0
COMMANDS = ("train", "search", "transform")
SAMPLERS = ("tpe", "random", "nsga2", "qmc", "brute_force")
MAX_SECONDS = {"train": 9.0, "search": 9.0, "transform": 6.0}
"""The latest moment of a kill: about when the command ends."""
LAYER = {"name": "integer", "weight_width": [2, 4, 8], "data_in_width": [4, 8]}
QUANTIZE = 'by = "type"\n[passes.quantize.linear.config]\nname = "integer"\nweight_width = 4\ndata_in_width = 4\n'
_expected: dict[str, Any] = {}
"""The results of commands that were not killed."""


def draw(random: Random) -> dict[str, Any]:
    command = random.choice(COMMANDS)
    return {
        "command": command,
        "sampler": random.choice(SAMPLERS) if command == "search" else None,
        "kills": [round(random.uniform(0.5, MAX_SECONDS[command]), 3) for _ in range(random.randint(1, 3))],
    }


def check(case: dict[str, Any], folder: Path) -> None:
    words = _command(case, folder)
    for number, seconds in enumerate(case["kills"]):
        _kill_after(words if number == 0 else _again(words), seconds, folder / "killed")
        for run in _runs(folder / "killed"):
            _check_files(run, is_complete=False)
    _run(_again(words), folder / "killed")
    run = max(_runs(folder / "killed"), key=lambda each: each.path.stat().st_mtime)
    _check_files(run, is_complete=True)
    key = json.dumps([case["command"], case["sampler"]])
    if key not in _expected:
        _run(words, folder / "complete")
        _expected[key] = _result(_runs(folder / "complete")[0])
    assert _result(run) == _expected[key], f"{run.path} differs from a run that was not killed"


def _command(case: dict[str, Any], folder: Path) -> list[str]:
    """Write the configuration of a case and return the words of its command."""
    start = 'model = "toy"\ndataset = "toy_tiny"\naccelerator = "cpu"\n'
    match case["command"]:
        case "train":
            text = f"{start}max_epochs = 6\nlog_every_n_steps = 2\nlr_scheduler = 'cosine'\n"
        case "transform":
            text = f"{start}[passes.quantize]\n{QUANTIZE}"
        case _:
            layer = "".join(f"{key} = {json.dumps(value)}\n" for key, value in LAYER.items())
            seeds = [f"[search.search_space.seed.seq_blocks_{n}.config]\n{layer}" for n in (0, 2, 4)]
            setup = f"[search.strategy.setup]\nsampler = '{case['sampler']}'\nn_trials = 60\n"
            text = start + "".join(seeds) + setup
    (folder / "c.toml").write_text(text)
    return [case["command"], "--config", str(folder / "c.toml")]


def _again(words: list[str]) -> list[str]:
    return words if words[0] == "transform" else [*words, "--resume"]


def _start(words: list[str], project: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "chop", *words, "--project-dir", str(project)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CHOP_OFFLINE": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=project.parent
    )


def _kill_after(words: list[str], seconds: float, project: Path) -> None:
    process = _start(words, project)
    time.sleep(seconds)
    process.kill()
    _, errors = process.communicate()
    assert "Traceback" not in errors, errors[-2000:]


def _run(words: list[str], project: Path) -> None:
    process = _start(words, project)
    _, errors = process.communicate()
    assert process.returncode == 0, errors[-2000:]


def _runs(project: Path) -> list[RunFolder]:
    return sorted((RunFolder(path) for path in project.glob("*")), key=lambda each: each.name)


def _check_files(run: RunFolder, *, is_complete: bool) -> None:
    """Check that each file can be read; after a kill some may be missing, and temporary ones may be left."""
    for path in run.path.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            _check_file(path)
    if is_complete:
        left = [path for path in run.path.rglob(".[0-9]*") if path.is_file()]
        assert not left, f"temporary files are left: {left}"
        assert run.is_finished, f"{run.path} is not finished"


def _check_file(path: Path) -> None:
    match path.suffix:
        case ".json":
            json.loads(path.read_text())
        case ".toml":
            tomllib.loads(path.read_text())
        case ".csv":
            assert len(pd.read_csv(path).columns) > 0, f"{path} is empty"
        case ".parquet":
            pd.read_parquet(path)
        case ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), f"{path} is cut off"
        case ".ckpt":
            torch.load(path, weights_only=True)


def _result(run: RunFolder) -> Any:
    """Return what must be equal to the result of a run that was not killed."""
    summary = run.read_summary()
    if summary["action"] == "search":
        trials = parse_json(run.search_log.read_bytes(), "log")["trials"]
        return [(each["number"], each["state"], each["params"], each["metrics"]) for each in trials]
    if summary["action"] == "transform":
        return summary["test"], run.quantization_table.read_text()
    state = torch.load(run.best_checkpoint, weights_only=True)["state_dict"]
    weights = {name: tensor.tolist() for name, tensor in state.items()}
    return summary["test"], summary["validation"], summary["best_epoch"], weights
