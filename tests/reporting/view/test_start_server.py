"""Starting and stopping `ch view`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from chop.config import ViewConfig
from chop.reporting.view import view
from chop.reporting.view.server import ViewServer, address_of, make_server


def test_only_this_machine_can_connect(project: Path) -> None:
    with make_server(project, "127.0.0.1", 0) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert not server.is_public
        assert address_of(server, "127.0.0.1") == f"http://127.0.0.1:{server.server_port}/"


def test_a_free_port_is_used_if_the_port_is_taken(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with make_server(project, "127.0.0.1", port) as server:
            assert server.server_port != port
            assert capsys.readouterr().out == f"port {port} is in use; listening on port {server.server_port}\n"


def test_a_public_server_answers_to_numbers_and_its_own_name(project: Path) -> None:
    with make_server(project, "0.0.0.0", 0) as server:
        assert server.is_public
        assert address_of(server, "0.0.0.0") == f"http://localhost:{server.server_port}/"
        assert server.answers_to("192.168.1.7:8080")
        assert server.answers_to(f"{socket.gethostname()}:8080")
        assert not server.answers_to("evil.example:8080")


def test_a_foreign_address_is_an_error(project: Path) -> None:
    with pytest.raises(OSError, match=r"^cannot listen on 203\.0\.113\.1, port 8080: "):
        make_server(project, "203.0.113.1", 8080)
    with pytest.raises(ValueError, match="'host' is empty"):
        make_server(project, "", 8080)


def test_a_missing_folder_is_an_error(project: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder '.*nowhere'; use ch view FOLDER"):
        view(ViewConfig(folder=project / "nowhere"))


def test_a_single_run_is_an_error(project: Path) -> None:
    (project / "run.toml").write_text("")
    with pytest.raises(ValueError, match=f"'{project}' is a single run; give its project, '{project.parent}'"):
        view(ViewConfig(folder=project))


def test_a_public_address_warns_and_the_browser_is_opened(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    opened, done = [], threading.Event()

    def open_nothing(address: str) -> bool:
        opened.append(address)
        done.set()
        return False

    def interrupt(server: ViewServer) -> None:
        assert done.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", open_nothing)
    monkeypatch.setattr(ViewServer, "serve_forever", interrupt)
    view(ViewConfig(folder=project, host="0.0.0.0", port=0, open=True))
    assert "anyone who can connect to 0.0.0.0 can read these runs" in caplog.text
    assert opened[0].startswith("http://localhost:")
    assert f"runs of {project}: {opened[0]}  (stop with Ctrl-C)\n" in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_stops_the_server_without_an_error(project: Path) -> None:
    command = [sys.executable, "-m", "chop", "view", str(project), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().split()[-4]
        with urllib.request.urlopen(address, timeout=20) as reply:
            assert b"There are no runs yet" in reply.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
