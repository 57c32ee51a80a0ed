"""Requests to the server, from browsers and from intruders."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from chop.reporting.view.html import REPORT_STYLES
from chop.reporting.view.server import ViewServer
from reporting.view.conftest import Ask, integer, train_summary, transform_summary, write_graph

AddRun = Callable[..., Path]
NASTY = "<script>alert('\"&"


@pytest.fixture(autouse=True)
def runs(add_run: AddRun) -> None:
    first = add_run("first", train_summary(0.5))
    second = add_run("second", transform_summary(0.625, 8.0, 25600), 'model = "toy"\nseed = 3\n')
    write_graph(second, integer(8, 4))
    (first / "curves.png").write_bytes(b"\x89PNG")
    (first / "report.html").write_text("<title>the report</title>")
    (first / "software").mkdir()
    (first / "software/best.ckpt").write_text("weights")


def test_the_overview_lists_the_runs(ask: Ask) -> None:
    reply = ask("/")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    for text in ("2 runs", 'href="/run/first"', 'href="/file/first/report.html"', "62.50 %", "was 75.00 %"):
        assert text in reply.text
    assert reply.text.index("second") < reply.text.index('href="/run/first"')


def test_an_empty_project_shows_the_first_command(ask: Ask, project: Path) -> None:
    for run in list(project.iterdir()):
        run.rename(project.parent / run.name)
    assert "There are no runs yet" in ask("/").text


def test_a_run_has_a_page(ask: Ask) -> None:
    page = ask("/run/second").text
    for text in ("integer(8, 4)", "count_bitops.total_bitops.after", "transformed_ckpt/graph.json", "6.4 k"):
        assert text in page
    assert "best.ckpt</a>" not in page
    assert "To create it: " in page
    assert "report " in page.partition("To create it: ")[2].partition("second</code>")[0]
    assert 'src="/file/first/curves.png"' in ask("/run/first").text


def test_two_runs_are_compared(ask: Ask) -> None:
    page = ask("/compare?run=second&run=first").text
    assert page.index('<a href="/run/first">') < page.index('<a href="/run/second">')  # by age
    assert "+12.50 points" in page
    assert "<td>fc1" not in page
    assert "fc1.weight" in page


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "select 2 to 6 runs to compare, not 0"),
        ("run=first", "not 1"),
        ("run=first&run=first", "not 1"),
        ("run=first&run=missing", "there is no such run"),
        ("run=first&run=..", "there is no such run"),
        ("&".join(f"run=a{i}" for i in range(200)), "not 0"),
    ],
)
def test_invalid_comparisons_are_rejected(ask: Ask, query: str, text: str) -> None:
    reply = ask(f"/compare?{query}")
    assert reply.status == 404
    assert text in reply.text


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("first/report.html", "text/html; charset=utf-8"),
        ("first/curves.png", "image/png"),
        ("first/run.toml", "text/plain; charset=utf-8"),
        ("second/software/transform/transformed_ckpt/graph.json", "application/json; charset=utf-8"),
    ],
)
def test_files_have_their_content_type(ask: Ask, project: Path, path: str, content_type: str) -> None:
    reply = ask(f"/file/{path}", headers={"Host": "localhost"}) if path.endswith("toml") else None
    reply = reply or ask(f"/file/{path}", method="HEAD")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == content_type
    assert int(reply.headers["Content-Length"]) == (project / path).stat().st_size


@pytest.mark.slow
def test_a_large_file_is_sent_completely(ask: Ask, project: Path) -> None:
    text = "".join(json.dumps({"step": step}) + "\n" for step in range(40_000))
    (project / "first/metrics.jsonl").write_text(text)
    assert ask("/file/first/metrics.jsonl").text == text


@pytest.mark.parametrize(
    "target",
    [
        "/missing",
        "/file",
        "/file/",
        "/file/first",
        "/file/first/software/best.ckpt",
        "/file/../secret.json",
        "/file/first/../../secret.json",
        "/file/first/%2e%2e/%2e%2e/secret.json",
        "/file/first/..%2f..%2fsecret.json",
        "/file/first%2f..%2f..%2fsecret.json",
        "/file/first/..%5c..%5csecret.json",
        "/file//secret.json",
        "/file/first/run.toml%00.json",
        "/file/%00",
        "/file/first/%ff.json",
        "/file/first/.summary.json.12",
        "/run/..",
        "/run/%2e%2e",
        "/run/",
        "/run/first/",
        "/run/first%2f..",
        "/assets/../files.py",
        "/assets/%2e%2e%2ffiles.py",
        "/assets/view.css/",
        "//first/run.toml",
        "first/run.toml",
        "http://127.0.0.1/file/first/run.toml",
        "*",
    ],
)
def test_nothing_else_is_served(ask: Ask, project: Path, target: str) -> None:
    (project.parent / "secret.json").write_text('{"secret": 1}')
    (project / "first/.summary.json.12").write_text("{}")
    for method in ("GET", "HEAD"):
        reply = ask(target, method)
        assert reply.status == 404
        assert "secret" not in reply.text


def test_absolute_paths_are_not_served(ask: Ask, project: Path) -> None:
    (project.parent / "secret.json").write_text('{"secret": 1}')
    path = str(project.parent / "secret.json")
    for target in (f"/file/{path}", f"/file/{quote(path, safe='')}"):
        assert ask(target).status == 404


def test_links_leading_outside_are_not_followed(ask: Ask, project: Path) -> None:
    (project.parent / "secret.json").write_text('{"secret": 1}')
    (project / "first/link.json").symlink_to(project.parent / "secret.json")
    (project / "away").symlink_to(project.parent)
    assert ask("/file/first/link.json").status == 404
    assert ask("/file/away/secret.json").status == 404
    assert ask("/run/away").status == 404


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "LOCALHOST", "127.0.0.1", "127.0.0.1:80", "[::1]:80"])
def test_requests_to_this_machine_are_answered(ask: Ask, host: str) -> None:
    assert ask("/", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "", "[", "x@["]
)
def test_other_host_names_are_refused(ask: Ask, host: str) -> None:
    reply = ask("/", headers={"Host": host})
    assert reply.status == 403
    assert "first" not in reply.text


def test_a_request_needs_exactly_one_host(ask: Ask, server: ViewServer) -> None:
    assert ask("/", headers={}).status == 403
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.0 403")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_the_server_is_read_only(ask: Ask, method: str) -> None:
    reply = ask("/", method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "target", ["/", "/run/first", "/compare?run=first&run=second", "/assets/view.js", "/missing"]
)
def test_every_response_has_security_headers(ask: Ask, target: str) -> None:
    headers = ask(target).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_html_files_of_a_run_are_sandboxed(ask: Ask) -> None:
    reply = ask("/file/first/report.html")
    assert reply.text == "<title>the report</title>"
    policy = reply.headers["Content-Security-Policy"].split("; ")
    assert policy[0].split()[0] == "sandbox"
    assert "allow-same-origin" not in policy[0]
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("name", [*REPORT_STYLES, "view.css", "view.js"])
def test_styles_and_scripts_are_served(ask: Ask, name: str) -> None:
    reply = ask(f"/assets/{name}")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == f"text/{'css' if name.endswith('css') else 'javascript'}; charset=utf-8"
    assert f'"/assets/{name}"' in ask("/").text


def test_names_are_escaped(ask: Ask, add_run: AddRun) -> None:
    summary = train_summary(0.5) | {"model": NASTY, "checkpoint": NASTY, NASTY: NASTY, "half": "\ud800"}
    add_run(NASTY, summary, f"'{'<script>'}' = '<script>'\n")
    add_run("corrupt", "{", f"x = {NASTY}")
    for target in ("/", f"/run/{quote(NASTY, safe='')}", f"/compare?run=first&run={quote(NASTY, safe='')}"):
        reply = ask(target)
        assert reply.status == 200
        assert "<script>" not in reply.text
        assert "&lt;script&gt;" in reply.text


def test_corrupt_summary_is_shown_on_every_page(ask: Ask, add_run: AddRun) -> None:
    add_run("corrupt", '{"action": ')
    assert "summary.json is corrupt" in ask("/").text
    assert "summary.json is corrupt" in ask("/run/corrupt").text
    assert "corrupt: summary.json is corrupt" in ask("/compare?run=first&run=corrupt").text


def test_a_bug_is_logged_and_the_server_keeps_running(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("chop.reporting.view.routes.overview_page", lambda *_: 1 / 0)
        assert ask("/").status == 500
    assert "ZeroDivisionError" in caplog.text
    assert ask("/").status == 200


def test_malformed_requests_do_not_stop_the_server(ask: Ask, server: ViewServer) -> None:
    for content in (b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            connection.makefile("rb").read()
    assert ask("/").status == 200


def test_only_files_of_runs_are_served(ask: Ask, project: Path) -> None:
    (project / "notes").mkdir()
    (project / "notes/diary.txt").write_text("dear diary")
    (project / "diary.txt").write_text("dear diary")
    for target in ("/file/notes/diary.txt", "/file/diary.txt", "/run/notes", "/file/diary.txt/"):
        assert ask(target).status == 404
