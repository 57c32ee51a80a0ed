"""Commands killed at random moments, or resumed while they run: files are complete and results are the same."""

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
from chop.passes.graph.transforms.quantize.summary import TABLE_FILE
from chop.runs import RunFolder

TIME_LIMIT = 300.0
COMMANDS = ("train", "search", "transform")
SAMPLERS = ("tpe", "random", "nsga2", "qmc", "brute_force")
MAX_SECONDS = {"train": 9.0, "search": 9.0, "transform": 6.0}
"""The latest moment of a kill: about when the command ends."""
LAYER = {"name": "integer", "weight_width": [2, 4, 8], "data_in_width": [4, 8]}
QUANTIZE = 'by = "type"\n[passes.quantize.linear.config]\nname = "integer"\nweight_width = 4\ndata_in_width = 4\n'
SHARE_OF_TWO_WRITERS = 0.3
_expected: dict[str, Any] = {}
"""The results of commands that were not killed."""


def draw(random: Random) -> dict[str, Any]:
    command = random.choice(COMMANDS)
    case = {"command": command, "sampler": random.choice(SAMPLERS) if command == "search" else None}
    if command != "transform" and random.random() < SHARE_OF_TWO_WRITERS:
        return {**case, "second": round(random.uniform(0.0, MAX_SECONDS[command]), 3)}
    kills = [round(random.uniform(0.5, MAX_SECONDS[command]), 3) for _ in range(random.randint(1, 3))]
    return {**case, "kills": kills}


def check(case: dict[str, Any], folder: Path) -> None:
    words = _command(case, folder)
    if "second" in case:
        _run_twice(_again(words), case["second"], folder / "project")
        runs = _runs(folder / "project")
    else:
        for number, seconds in enumerate(case["kills"]):
            _kill_after(words if number == 0 else _again(words), seconds, folder / "project")
            for run in _runs(folder / "project"):
                _check_files(run, is_complete=False)
        _run(_again(words), folder / "project")
        runs = [max(_runs(folder / "project"), key=lambda each: each.path.stat().st_mtime)]
    for run in runs:
        _check_files(run, is_complete=True)
        _check_result(case, run, words, folder)


def _check_result(case: dict[str, Any], run: RunFolder, words: list[str], folder: Path) -> None:
    key = json.dumps([case["command"], case["sampler"]])
    if key not in _expected:
        _run(words, folder / "complete")
        _expected[key] = _result(_runs(folder / "complete")[0])
    assert _result(run) == _expected[key], f"{run.path} differs from a run that was not disturbed"


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


def _run_twice(words: list[str], seconds: float, project: Path) -> None:
    """Run a command, and again `seconds` later: the second one ends with an error if the first one still writes."""
    first = _start(words, project)
    time.sleep(seconds)
    processes = [first, _start(words, project)]
    errors = [process.communicate()[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert 0 in codes, errors
    for code, text in zip(codes, errors, strict=True):
        assert code == 0 or (code == 2 and "is writing to" in text.splitlines()[-1]), text[-2000:]


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
        return summary["test"], (run.transform / TABLE_FILE).read_text()
    state = torch.load(run.best_checkpoint, weights_only=True)["state_dict"]
    weights = {name: tensor.tolist() for name, tensor in state.items()}
    return summary["test"], summary["validation"], summary["best_epoch"], weights
