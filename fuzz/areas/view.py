"""Requests to `ch view`, on a project with corrupt, hostile and ordinary runs.

Every request gets an answer that is not a server error, and nothing outside of the project is sent.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from chop.reporting.view.server import ViewServer

SECRET = "kept-outside-of-the-project"
NAMES = ("run", "other", "grid", "<script>", "ünïcode run", "a&b", "..", ".", ".hidden", "link", "", "x" * 300)
FILES = ("summary.json", "run.toml", "grid.json", "metrics.jsonl", "report.html", "secret.txt", "weights.pt", "")
SEPARATORS = ("/", "//", "/./", "/../", "%2f", "%2e%2e/", "\\", "%5c", "%00", "/%2e%2e%2f")
METHODS = ("GET", "GET", "GET", "HEAD", "POST", "DELETE", "BREW", "get", "")
HOSTS = ("localhost", "127.0.0.1", "[::1]", "evil.example", "localhost:1", "", "localhost\r\nHost: evil.example")
CONTENTS = (
    "",
    "{",
    "[]",
    "null",
    '{"action": "train", "test": {"accuracy": NaN}}',
    "\0",
    "[[[" * 200,
    "a = 1",
    "é",
)
VALUES: tuple[Any, ...] = (
    None,
    1e999,
    -1,
    "<img src=x>",
    [],
    {},
    "\ud800",
    [1, "a", None],
    {"a": {"b": [1]}},
    True,
)
KEYS = (
    "action",
    "model",
    "dataset",
    "data",
    "test",
    "cost",
    "measured",
    "trials",
    "best",
    "seconds",
    "rows",
    "runs",
)


def draw(random: Random) -> dict[str, Any]:
    files = {
        f"{random.choice(NAMES[:6])}/{random.choice(FILES[:5])}": _content(random)
        for _ in range(random.randint(1, 12))
    }
    return {"files": files, "requests": [_request(random) for _ in range(20)]}


def _content(random: Random) -> str:
    if random.random() < 0.4:
        return random.choice(CONTENTS)
    keys = random.sample(KEYS, random.randint(1, 6))
    return json.dumps({key: random.choice((*VALUES, {random.choice(KEYS): random.choice(VALUES)})) for key in keys})


def _request(random: Random) -> dict[str, str]:
    start = random.choice(
        (
            "/",
            "/run/",
            "/file/",
            "/compare?run=",
            "/?page=",
            "/?sort=-",
            "/?filter=",
            "/assets/",
            "/view.css",
            "*",
            "http://evil/",
        )
    )
    parts = [random.choice((*NAMES, *FILES)) for _ in range(random.randint(0, 4))]
    path = start + random.choice(SEPARATORS).join(parts) + random.choice(("", "&run=run", "?x", "#y", "%zz"))
    return {"method": random.choice(METHODS), "path": path, "host": random.choice(HOSTS)}


def check(case: dict[str, Any], folder: Path) -> None:
    root = _write_project(case["files"], folder)
    server = ViewServer(root, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        for request in case["requests"]:
            _check_answer(_send(request, server.server_port), request)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write_project(files: dict[str, str], folder: Path) -> Path:
    root = folder / "project"
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", errors="surrogatepass")
    outside = folder / "outside"
    outside.mkdir()
    for name in ("secret.txt", "run.toml", "summary.json"):
        (outside / name).write_text(json.dumps({"model": SECRET}))
    (root / "link").symlink_to(outside)
    first = root / next(iter(files)).partition("/")[0]
    for name in ("metrics.jsonl", "grid.json"):
        with suppress(FileExistsError):
            os.mkfifo(first / name)
    (first / "secret.txt").symlink_to(outside / "secret.txt")
    (first / "weights.pt").write_text(SECRET)
    return root


def _send(request: dict[str, str], port: int) -> bytes:
    """Send a request as it is, valid or not, and return the complete answer."""
    lines = (
        f"{request['method']} {request['path']} HTTP/1.1\r\nHost: {request['host']}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(lines.encode("utf-8", "replace"))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def _check_answer(answer: bytes, request: dict[str, str]) -> None:
    assert SECRET.encode() not in answer, f"{request} was answered with a file outside of the project"
    assert b"Traceback" not in answer, f"{request} shows a traceback"
    head = answer.split(b"\r\n", 1)[0].split()
    if head and head[0].startswith(b"HTTP/"):
        status = int(head[1])
        assert status < 500 or status == 501, f"{request} got {answer[:300]!r}"
        if status == 200:
            assert request["host"] != "evil.example", f"{request} was answered for another host"
            assert request["method"] in ("GET", "HEAD"), f"{request} was answered"
