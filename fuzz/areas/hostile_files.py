"""Files of a run, checkpoints, graphs, journals and data, changed by somebody who wants to do harm.

Every command that reads such a file ends with exit code 0, or with 2 and one line about the error; it neither runs
code from the file nor waits for ever.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from chop.runs import RunFolder
from chop.toml import write_toml
from fuzz.command import run_ch

TIME_LIMIT = 30.0

Case = dict[str, Any]

TRAINED, TRANSFORMED, SEARCHED = (RunFolder(Path("runs") / name) for name in ("trained", "transformed", "searched"))
REPORT, EXPLAIN = ("report", "--samples", "4", "--no-sensitivity"), ("explain", "--samples", "4")
LATEST = (*EXPLAIN, "--project-dir", "runs")
RESUME_TRAIN = ("train", "--config", str(TRAINED.config), "--resume", "--max-steps", "4")
RESUME_SEARCH = ("search", "--config", str(SEARCHED.config), "--resume", "--n-trials", "3")
QUICK = ("--batch-size", "32", "--accelerator", "cpu")
ROWS = ("test", "toy", *QUICK)

READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    str(TRAINED.config): ((*REPORT, str(TRAINED)), (*EXPLAIN, str(TRAINED)), RESUME_TRAIN, LATEST),
    str(TRAINED.summary): ((*REPORT, str(TRAINED)), (*EXPLAIN, str(TRAINED)), LATEST),
    str(TRAINED.metrics): ((*REPORT, str(TRAINED)), RESUME_TRAIN),
    str(TRAINED.best_checkpoint): (
        ("test", "toy", "toy_tiny", "--load", str(TRAINED), *QUICK),
        (*REPORT, str(TRAINED)),
    ),
    str(TRAINED.last_checkpoint): (RESUME_TRAIN,),
    str(TRANSFORMED.config): ((*REPORT, str(TRANSFORMED)), (*EXPLAIN, str(TRANSFORMED))),
    str(TRANSFORMED.graph / "graph.json"): (
        (*REPORT, str(TRANSFORMED)),
        ("test", "toy", "toy_tiny", "--load", str(TRANSFORMED), *QUICK),
    ),
    str(TRANSFORMED.graph / "weights"): (
        ("test", "toy", "toy_tiny", "--load", str(TRANSFORMED), *QUICK),
        ("train", "toy", "toy_tiny", "--load", str(TRANSFORMED), "--max-steps", "1", *QUICK),
    ),
    str(SEARCHED.config): (RESUME_SEARCH, (*REPORT, str(SEARCHED))),
    str(SEARCHED.journal): (RESUME_SEARCH,),
    str(SEARCHED.search_log): (
        (*REPORT, str(SEARCHED)),
        ("search", "--config", str(SEARCHED.config), "--apply", "0"),
    ),
    "rows.npz": ((*ROWS, "rows.npz"),),
    "rows.csv": ((*ROWS, "rows.csv"),),
}
"""For each file the commands that read it."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**40,
    2**70,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x" * 3000,
    "../..",
)
VALUES += (
    "/etc/passwd",
    "os.system",
    "__import__('os').system('touch ran')",
    "<script>",
    [],
    {},
    [[]],
    {"a": 1},
    "\0",
)
LONG = (
    "max_epochs",
    "max_steps",
    "n_trials",
    "timeout",
    "finetune",
    "workers",
    "n_jobs",
    "num_workers",
    "num_rows",
    "nodes",
    "num_devices",
    "accelerator",
    "strategy",
    "save_every_n_trials",
)
"""Keys for which a large value is valid, and takes long or starts processes."""


def draw(random: Random) -> Case:
    """Draw a file, what happens to it, and the command that reads it."""
    file = random.choice(list(READERS))
    ways = [way for way in WAYS if way != "code" or file.endswith((".toml", ".ckpt", "npz"))]
    ways += ["bytes", "values", "values", "values"]
    command = list(random.choice(READERS[file]))
    return {"file": file, "way": random.choice(ways), "seed": random.randrange(10**9), "command": command}


def check(case: Case, folder: Path) -> None:
    """Change the file in a copy of the runs, and run the command."""
    shutil.copytree(_runs(), folder, dirs_exist_ok=True)
    path = next(folder.glob(f"{case['file']}*"))
    random = Random(case["seed"])
    WAYS[case["way"]](path, random)
    run_ch(case["command"], folder)
    assert not (folder / "ran").exists(), "code of the file was run"


def prepare() -> None:
    """Make the runs and data files that the cases change."""
    _runs()


@cache
def _runs() -> Path:
    """Return a folder with a training, a transform, a search and data files; made once per process."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-runs-"))
    before = Path.cwd()
    os.chdir(folder)
    try:
        quantize = {"by": "type", "linear": {"config": {"name": "integer", "weight_width": 8, "data_in_width": 8}}}
        Path("transform.toml").write_text(write_toml({"passes": {"quantize": quantize}}))
        choices = {"name": ["integer"], "weight_width": [4, 8]}
        space = {"setup": {"by": "type"}, "seed": {"linear": {"config": choices}}}
        Path("search.toml").write_text(write_toml({"search": {"search_space": space}}))
        commands: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("trained", ("train", "toy", "toy_tiny", "--max-steps", "3", "--report-to", "none", *QUICK)),
            ("transformed", ("transform", "toy", "toy_tiny", "--config", "transform.toml", *QUICK)),
            ("searched", ("search", "toy", "toy_tiny", "--config", "search.toml", "--n-trials", "2", *QUICK)),
        )
        for name, words in commands:
            assert run_ch([*words, "--project-dir", "new"], folder).code == 0
            Path("runs").mkdir(exist_ok=True)
            next(Path("new").iterdir()).rename(Path("runs") / name)
        rows = np.arange(120.0).reshape(60, 2)
        np.savez("rows.npz", x=rows, y=np.arange(60) % 2)
        Path("rows.csv").write_text("p,q,label\n" + "".join(f"{p},{q},{int(p) % 4}\n" for p, q in rows))
    finally:
        os.chdir(before)
    return folder


def _change_bytes(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 3, 30))):
        content[random.randrange(len(content))] = random.randrange(256)
    _write(path, bytes(content))


def _cut(path: Path, random: Random) -> None:
    content = path.read_bytes()
    _write(path, content[: random.randrange(len(content))])


def _nest(path: Path, random: Random) -> None:
    depth = random.choice((200, 5000, 100_000))
    before = "x = " if path.suffix == ".toml" else ""
    _write(path, (before + "[" * depth + "]" * depth).encode())


def _replace_by_pipe(path: Path, random: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _replace_by_link_to_pipe(path: Path, random: Random) -> None:
    path.unlink()
    os.mkfifo("pipe")
    path.symlink_to(Path("pipe").absolute())


def _replace_by_link_to_device(path: Path, random: Random) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _replace_by_folder(path: Path, random: Random) -> None:
    path.unlink()
    path.mkdir()


def _change_values(path: Path, random: Random) -> None:
    """Replace, add or remove values inside the structure of the file."""
    content = path.read_bytes()
    match path.suffix:
        case ".json":
            _write(path, json.dumps(_mutated(json.loads(content), random)).encode())
        case ".jsonl" | ".journal":
            lines = content.decode().splitlines()
            at = random.randrange(len(lines))
            lines[at] = json.dumps(_mutated(json.loads(lines[at]), random))
            _write(path, "".join(f"{line}\n" for line in lines).encode())
        case ".toml":
            table = _mutated(tomllib.loads(content.decode()), random)
            kept = _without_none(table) if isinstance(table, dict) else {"x": str(table)}
            _write(path, write_toml(kept).encode(errors="replace"))
        case ".ckpt":
            state = _mutated(torch.load(path, weights_only=True), random)
            buffer = io.BytesIO()
            torch.save(state, buffer)
            _write(path, buffer.getvalue())
        case _:
            _change_bytes(path, random)


def _mutated(value: Any, random: Random) -> Any:
    """Return a copy in which one value, at a random depth, is another one, is missing, or has a neighbour."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        if key in LONG:
            return value
        kept = {name: each for name, each in value.items() if name != key}
        return kept if random.random() < 0.15 else {**kept, key: _mutated(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        return [*value[:at], _mutated(value[at], random), *value[at + 1 :]]
    if isinstance(value, torch.Tensor) and random.random() < 0.7:
        return random.choice((value.reshape(-1)[:0], value.double(), torch.zeros(2, 3, 5), value * float("nan")))
    return random.choice(VALUES)


def _without_none(table: Any) -> Any:
    """Return a value without None, which TOML does not have."""
    if isinstance(table, dict):
        return {key: _without_none(value) for key, value in table.items() if value is not None}
    if isinstance(table, list):
        return [_without_none(value) for value in table if value is not None]
    return table


class _Touch:
    """An object whose pickle runs code when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ran",)


def _add_code(path: Path, random: Random) -> None:
    """Make the file name or hold code."""
    match path.suffix:
        case ".toml":
            table = tomllib.loads(path.read_text())
            for name in ("code.py", "co-de.py", "1x.py", "co de.py"):
                Path(name).write_text("import os\nos.system('touch ran')\n")
            model = {"model": "timeit:timeit", "model_options": {"stmt": "open('ran', 'w')"}}
            data = {"dataset": "subprocess:getoutput", "data_options": {"cmd": "touch ran"}}
            plugin = {"plugins": [str(Path("code.py").absolute())]}
            module: dict[str, Any] = {"model": random.choice(("code:Net", "co-de:Net", "1x:Net", "co de:Net"))}
            file: dict[str, Any] = {"dataset": "code.py:Rows"}
            _write(path, write_toml({**table, **random.choice((model, data, plugin, module, file))}).encode())
        case ".ckpt":
            state = torch.load(path, weights_only=True)
            torch.save(random.choice((_Touch(), {**state, "x": _Touch()}, {"state_dict": _Touch()})), path)
        case _:
            np.savez(path, x=np.array([_Touch()], dtype=object), y=np.arange(1))


def _write(path: Path, content: bytes) -> None:
    path.unlink()  # best.ckpt and last.ckpt may be one file
    path.write_bytes(content)


WAYS: dict[str, Callable[[Path, Random], None]] = {
    "bytes": _change_bytes,
    "cut": _cut,
    "empty": lambda path, random: _write(path, b""),
    "nested": _nest,
    "pipe": _replace_by_pipe,
    "link to pipe": _replace_by_link_to_pipe,
    "device": _replace_by_link_to_device,
    "folder": _replace_by_folder,
    "values": _change_values,
    "code": _add_code,
}
