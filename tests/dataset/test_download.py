"""Downloading files from a local server."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chop.dataset import download
from chop.dataset.download import DownloadError, Remote, fetch, fetch_text
from dataset.local_server import Site, serve

pytestmark = pytest.mark.slow

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _local_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHOP_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "_failures", {})


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(CONTENT) as running:
        yield running


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def test_a_file_is_downloaded_once_and_its_checksum_recorded(site: Site, tmp_path: Path) -> None:
    path = fetch(Remote(site.url, "data.bin", SHA256), tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert files_in(path.parent) == {"data.bin", "data.bin.sha256"}
    note = path.with_name("data.bin.sha256").read_text()
    assert note == f"{hashlib.sha256(CONTENT).hexdigest()}  data.bin\n"
    assert fetch(Remote(site.url, "data.bin", MD5), path.parent) == path
    assert len(site.asked) == 1


def test_a_file_that_changed_after_the_download_is_rejected(site: Site, tmp_path: Path) -> None:
    path = fetch(Remote(site.url, "data.bin"), tmp_path)
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(ValueError, match=r"data.bin' is corrupt or was changed: .* delete both files"):
        fetch(Remote(site.url, "data.bin"), tmp_path)


def test_an_interrupted_download_is_resumed(site: Site, tmp_path: Path) -> None:
    site.cuts = [400_000, 700_000]
    path = fetch(Remote(site.url, "data.bin", MD5), tmp_path)
    assert path.read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=400000-", "bytes=700000-"]


def test_a_later_process_resumes_a_download(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:123_456])
    (tmp_path / "data.bin.part.tag").write_text(site.etag)
    assert fetch(Remote(site.url, "data.bin", MD5), tmp_path).read_bytes() == CONTENT
    assert site.ranges == ["bytes=123456-"]
    assert files_in(tmp_path) == {"data.bin", "data.bin.sha256"}


def test_the_beginning_of_a_different_version_is_dropped(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"old" * 1000)
    (tmp_path / "data.bin.part.tag").write_text('"an older one"')
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT


def test_a_beginning_of_unknown_version_is_dropped(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"unknown")
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT
    assert site.ranges == [None]


def test_a_server_that_cannot_resume_sends_everything_again(site: Site, tmp_path: Path) -> None:
    site.cuts, site.knows_ranges = [400_000], False
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=400000-"]


def test_a_beginning_longer_than_the_file_is_dropped(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT + b"too much")
    (tmp_path / "data.bin.part.tag").write_text(site.etag)
    assert fetch(Remote(site.url, "data.bin", MD5), tmp_path).read_bytes() == CONTENT


def test_servers_need_not_send_tags_and_lengths(site: Site, tmp_path: Path) -> None:
    site.etag, site.tells_length = "", False
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT
    assert files_in(tmp_path) == {"data.bin", "data.bin.sha256"}


def test_a_connection_without_any_bytes_fails(site: Site, tmp_path: Path) -> None:
    site.cuts = [0] * 10
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 cannot be reached \(0 of 1024000 bytes were received\)"):
        fetch(Remote(site.url, "data.bin"), tmp_path)
    assert len(site.asked) == 1


@pytest.mark.parametrize(("algorithm", "found"), [("md5", MD5), ("sha256", SHA256)])
def test_a_wrong_checksum_leaves_nothing_behind(site: Site, tmp_path: Path, algorithm: str, found: str) -> None:
    wrong = "0" * len(found)
    with pytest.raises(DownloadError, match=f"has the {algorithm} {found}, not {wrong}"):
        fetch(Remote(site.url, "data.bin", wrong), tmp_path)
    assert files_in(tmp_path) == set()


def test_a_wrong_content_leaves_nothing_behind(site: Site, tmp_path: Path) -> None:
    def check(path: Path) -> None:
        assert path.read_bytes() == CONTENT
        raise ValueError("it is a page with the news")

    with pytest.raises(DownloadError, match="is not the expected one: it is a page with the news"):
        fetch(Remote(site.url, "data.bin", check=check), tmp_path)
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize("status", [404, 403, 500])
def test_an_error_of_the_server_is_reported_and_not_requested_again(
    site: Site, tmp_path: Path, status: int
) -> None:
    site.status = status
    for _ in range(2):
        with pytest.raises(DownloadError, match=rf"^127\.0\.0\.1 returned {status} "):
            fetch(Remote(site.url, "data.bin"), tmp_path)
    assert len(site.asked) == 1


def test_a_silent_server_times_out(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    site.silence = 0.5
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 did not respond in time"):
        fetch(Remote(site.url, "data.bin"), tmp_path)


def test_an_unreachable_server_is_reported() -> None:
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 cannot be reached \(Connection refused\)"):
        fetch_text("http://127.0.0.1:9/")


def test_offline_sends_no_requests(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch(Remote(site.url, "data.bin"), tmp_path)
    monkeypatch.setenv("CHOP_OFFLINE", "1")
    assert fetch(Remote(site.url, "data.bin"), tmp_path) == path
    for attempt in (lambda: fetch(Remote(site.url, "other.bin"), tmp_path), lambda: fetch_text(site.url)):
        with pytest.raises(DownloadError, match=r"downloads from 127\.0\.0\.1 are disabled by CHOP_OFFLINE"):
            attempt()
    assert len(site.asked) == 1


def test_other_schemes_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="'file:///etc/hosts' is not an http or https URL"):
        fetch(Remote("file:///etc/hosts", "hosts"), tmp_path)


def test_a_folder_without_write_permission_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(DownloadError, match="occupied"):
        fetch(Remote(site.url, "data.bin"), tmp_path / "occupied" / "inside")


def test_a_text_is_read(site: Site) -> None:
    site.content = "länger".encode()
    assert fetch_text(site.url) == "länger"


def test_two_processes_download_once(site: Site, tmp_path: Path) -> None:
    site.pause = 0.01
    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda: paths.append(fetch(Remote(site.url, "data.bin", MD5), tmp_path)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_bytes() == CONTENT for path in paths] == [True, True]
    assert len(site.asked) == 1


def test_downloads_are_logged(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site.cuts = [400_000]
    with caplog.at_level(logging.INFO, logger="chop"):
        path = fetch(Remote(site.url, "data.bin"), tmp_path)
    told = [message for message in caplog.messages if " % of " not in message]
    assert told == [
        "downloading data.bin (1.0 MB)",
        "data.bin: the connection was interrupted "
        "(127.0.0.1 cannot be reached (400000 of 1024000 bytes were received)); resuming",
        "downloading data.bin (1.0 MB), resuming at 0.4 MB",
        f"saved {path}",
    ]


_FETCH = """
import sys
from pathlib import Path
from chop.dataset.download import Remote, fetch
fetch(Remote(sys.argv[1], "data.bin", sys.argv[2]), Path(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_download_is_resumed(site: Site, tmp_path: Path) -> None:
    site.pause = 0.05
    process = subprocess.Popen([sys.executable, "-c", _FETCH, site.url, MD5, str(tmp_path)])
    part = tmp_path / "data.bin.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "data.bin").exists()
    length = part.stat().st_size
    assert part.read_bytes() == CONTENT[:length]
    site.pause = 0
    assert fetch(Remote(site.url, "data.bin", MD5), tmp_path).read_bytes() == CONTENT
    assert site.ranges == [None, f"bytes={length}-"]
