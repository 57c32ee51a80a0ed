"""A project with runs of every kind, and a server for it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from chop.reporting.view.server import ViewServer, make_server

DATA = {"title": "jsc (generated)", "version": "generated"}
Summary = dict[str, Any]


def train_summary(accuracy: float) -> Summary:
    test = {"accuracy": accuracy, "loss": 1.25, "confusion": [[3, 1], [0, 4]]}
    return {"action": "train", "model": "toy", "dataset": "jsc", "data": DATA, "parameters": 1234, "test": test}


def transform_summary(after: float, weight_bits: float, bitops: int) -> Summary:
    """The summary of a transform run, whose cost is for a batch of 4 samples."""
    before = {"macs": 400, "bitops": 409600, "weight_bits": 12800, "average_weight_bits": 32.0}
    now = {"macs": 400, "bitops": bitops, "weight_bits": 3200, "average_weight_bits": weight_bits}
    return {
        "action": "transform",
        "model": "toy",
        "dataset": "jsc",
        "data": DATA,
        "parameters": 400,
        "checkpoint": "out/first/software/training_ckpts/best.ckpt",
        "test": {"before": {"accuracy": 0.75, "loss": 0.5}, "after": {"accuracy": after, "loss": 0.625}},
        "measured": [{"pass": "count_bitops", "what": "total_bitops", "before": 8, "after": 2}],
        "cost": {"samples": 4, "before": before, "after": now},
        "seconds": 61.2,
    }


def integer(width: int, frac_width: int) -> Summary:
    return {"name": "integer", "width": width, "frac_width": frac_width}


def write_graph(folder: Path, weight: Summary) -> None:
    """Write the part of a saved graph that contains its formats."""
    plain = {"name": "float", "width": 32}
    args = {"data_in_0": {"format": integer(8, 4)}, "weight": {"format": weight}, "bias": {"format": plain}}
    metadata = {"x": {"args": {}}, "fc1": {"args": args}}
    (folder / "software/transform/transformed_ckpt").mkdir(parents=True)
    (folder / "software/transform/transformed_ckpt/graph.json").write_text(json.dumps({"metadata": metadata}))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "out"
    root.mkdir()
    return root


@pytest.fixture
def add_run(project: Path) -> Callable[..., Path]:
    """A function that makes a run from a summary, each one hour after the previous one."""
    hours = 0

    def add(name: str, summary: Summary | str | None, config: str | None = 'model = "toy"\n') -> Path:
        nonlocal hours
        hours += 1
        folder = project / name
        folder.mkdir()
        if summary is not None:
            text = summary if isinstance(summary, str) else json.dumps(summary)
            (folder / "summary.json").write_text(text)
        if config is not None:
            (folder / "run.toml").write_text(config)
        for file in folder.iterdir():
            os.utime(file, (1.7e9 + 3600 * hours,) * 2)
        return folder

    return add


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Message
    text: str


Ask = Callable[..., Reply]


@pytest.fixture
def server(project: Path) -> Iterator[ViewServer]:
    with make_server(project, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(server: ViewServer) -> Ask:
    """A function that sends a request target exactly as given; other clients would normalise it."""

    def ask(target: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Reply:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        given = {"Host": f"127.0.0.1:{server.server_port}"} if headers is None else headers
        try:
            connection.putrequest(method, target, skip_host=True)
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders()
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read().decode())
        finally:
            connection.close()

    return ask
