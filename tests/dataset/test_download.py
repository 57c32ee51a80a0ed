"""Fetching files, from a server on this machine."""

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
from local_server import Site, serve

from chop.dataset.download import DownloadError, Remote, connection, fetch, fetch_text, transfer

pytestmark = pytest.mark.slow

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture(autouse=True)
def _local_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHOP_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(transfer, "_failures", {})


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(CONTENT) as running:
        yield running


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def test_a_file_is_fetched_once_and_its_checksum_noted(site: Site, tmp_path: Path) -> None:
    path = fetch(Remote(site.url, "data.bin", MD5), tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert files_in(path.parent) == {"data.bin", "data.bin.sha256"}
    note = path.with_name("data.bin.sha256").read_text()
    assert note == f"{hashlib.sha256(CONTENT).hexdigest()}  data.bin\n"
    assert fetch(Remote(site.url, "data.bin", MD5), path.parent) == path
    assert len(site.asked) == 1


def test_a_file_that_changed_since_is_not_used(site: Site, tmp_path: Path) -> None:
    path = fetch(Remote(site.url, "data.bin"), tmp_path)
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(ValueError, match=r"data.bin' is damaged or was changed: .* delete both to have it fetched"):
        fetch(Remote(site.url, "data.bin"), tmp_path)


def test_a_cut_connection_is_taken_up_where_it_was_cut(site: Site, tmp_path: Path) -> None:
    site.cuts = [400_000, 700_000]
    path = fetch(Remote(site.url, "data.bin", MD5), tmp_path)
    assert path.read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=400000-", "bytes=700000-"]


def test_a_later_process_goes_on_where_an_earlier_one_stopped(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:123_456])
    (tmp_path / "data.bin.part.tag").write_text(site.etag)
    assert fetch(Remote(site.url, "data.bin", MD5), tmp_path).read_bytes() == CONTENT
    assert site.ranges == ["bytes=123456-"]
    assert files_in(tmp_path) == {"data.bin", "data.bin.sha256"}


def test_the_beginning_of_another_version_is_thrown_away(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"old" * 1000)
    (tmp_path / "data.bin.part.tag").write_text('"an older one"')
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT


def test_a_beginning_of_unknown_version_is_thrown_away(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"unknown")
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT
    assert site.ranges == [None]


def test_a_server_that_cannot_go_on_sends_everything_again(site: Site, tmp_path: Path) -> None:
    site.cuts, site.knows_ranges = [400_000], False
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT
    assert site.ranges == [None, "bytes=400000-"]


def test_a_beginning_longer_than_the_file_is_thrown_away(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT + b"too much")
    (tmp_path / "data.bin.part.tag").write_text(site.etag)
    assert fetch(Remote(site.url, "data.bin", MD5), tmp_path).read_bytes() == CONTENT


def test_a_server_without_tags_and_lengths_will_do(site: Site, tmp_path: Path) -> None:
    site.etag, site.tells_length = "", False
    assert fetch(Remote(site.url, "data.bin"), tmp_path).read_bytes() == CONTENT
    assert files_in(tmp_path) == {"data.bin", "data.bin.sha256"}


def test_a_connection_that_is_cut_at_once_fails(site: Site, tmp_path: Path) -> None:
    site.cuts = [0] * 10
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 cannot be reached \(0 of 1024000 bytes came\)"):
        fetch(Remote(site.url, "data.bin"), tmp_path)
    assert len(site.asked) == 1


def test_a_wrong_checksum_leaves_nothing_behind(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=f"gives a file with the md5 {MD5}, published is {'0' * 32}"):
        fetch(Remote(site.url, "data.bin", "0" * 32), tmp_path)
    assert files_in(tmp_path) == set()


def test_a_wrong_content_leaves_nothing_behind(site: Site, tmp_path: Path) -> None:
    def check(path: Path) -> None:
        assert path.read_bytes() == CONTENT
        raise ValueError("it is a page with the news")

    with pytest.raises(DownloadError, match="another file than expected: it is a page with the news"):
        fetch(Remote(site.url, "data.bin", check=check), tmp_path)
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize("status", [404, 403, 500])
def test_an_error_of_the_server_is_told_and_not_asked_for_again(site: Site, tmp_path: Path, status: int) -> None:
    site.status = status
    for _ in range(2):
        with pytest.raises(DownloadError, match=rf"^127\.0\.0\.1 answers {status} "):
            fetch(Remote(site.url, "data.bin"), tmp_path)
    assert len(site.asked) == 1


def test_a_server_that_says_nothing_is_given_up(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "READ_TIMEOUT", 0.1)
    site.silence = 0.5
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 does not answer in time"):
        fetch(Remote(site.url, "data.bin"), tmp_path)


def test_nobody_at_the_address_is_told() -> None:
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 cannot be reached \(Connection refused\)"):
        fetch_text("http://127.0.0.1:9/")


def test_offline_asks_nobody(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch(Remote(site.url, "data.bin"), tmp_path)
    monkeypatch.setenv("CHOP_OFFLINE", "1")
    assert fetch(Remote(site.url, "data.bin"), tmp_path) == path
    for attempt in (lambda: fetch(Remote(site.url, "other.bin"), tmp_path), lambda: fetch_text(site.url)):
        with pytest.raises(DownloadError, match=r"127\.0\.0\.1 is not asked, as CHOP_OFFLINE is set"):
            attempt()
    assert len(site.asked) == 1


def test_an_address_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="'file:///etc/hosts' is no http or https address"):
        fetch(Remote("file:///etc/hosts", "hosts"), tmp_path)


def test_a_folder_that_cannot_be_written_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(DownloadError, match="occupied"):
        fetch(Remote(site.url, "data.bin"), tmp_path / "occupied" / "inside")


def test_a_text_is_read(site: Site) -> None:
    site.content = "länger".encode()
    assert fetch_text(site.url) == "länger"


def test_two_at_a_time_fetch_once(site: Site, tmp_path: Path) -> None:
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


def test_what_happens_is_logged(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site.cuts = [400_000]
    with caplog.at_level(logging.INFO, logger="chop"):
        path = fetch(Remote(site.url, "data.bin"), tmp_path)
    told = [message for message in caplog.messages if " % of " not in message]
    assert told == [
        "downloading data.bin (1.0 MB)",
        "data.bin: the connection broke off (127.0.0.1 cannot be reached (400000 of 1024000 bytes came)); going on",
        "downloading data.bin (1.0 MB), from 0.4 MB on",
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
def test_a_killed_download_leaves_no_half_file_and_is_resumed(site: Site, tmp_path: Path) -> None:
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
