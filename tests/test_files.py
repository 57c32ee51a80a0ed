"""Files are written completely or not at all; corrupt ones are reported in one sentence."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chop.files import (
    STALE_SECONDS,
    CorruptFileError,
    atomic_path,
    parse_json,
    read_file,
    read_json,
    read_text,
    read_toml,
    remove_temporary_files,
    write_bytes,
    write_json,
    write_text,
)


def fail(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_content_is_read_as_written(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"\x00\xff", sync=True)
    write_text(tmp_path / "b", "π\n")
    write_json(tmp_path / "c.json", {"a": [1, 2]})
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_text(encoding="utf-8") == "π\n"
    assert read_json(tmp_path / "c.json") == {"a": [1, 2]}


def test_a_file_that_cannot_be_replaced_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a.txt'"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def make_link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


SPECIAL_FILES = (make_pipe, make_link_to_pipe, make_link_to_device, make_socket, Path.mkdir)


@pytest.mark.parametrize("make", SPECIAL_FILES)
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(path := tmp_path / "a.toml")
    for read in (read_file, read_text, read_json, read_toml):
        with pytest.raises((OSError, CorruptFileError)) as error:
            read(path)
        assert str(path) in str(error.value)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}".ljust(2**20))
    assert read_json(tmp_path / "a.json", 2**20) == {}
    (tmp_path / "a.json").write_text("{}".ljust(2**20 + 1))
    with pytest.raises(CorruptFileError, match=r"a.json is not read: it is larger than 1 MiB"):
        read_json(tmp_path / "a.json", 2**20)


def test_an_error_while_writing_leaves_no_temporary_file(tmp_path: Path) -> None:
    def write_half() -> None:
        with atomic_path(tmp_path / "a.txt") as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_file_keeps_the_suffix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "plot.png") as temporary:
        assert temporary.suffix == ".png"
        temporary.touch()


def test_only_temporary_files_are_removed(tmp_path: Path) -> None:
    for name in (".7.a.txt", "a.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".folder").mkdir()
    remove_temporary_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".folder", "a.txt"]


def test_only_stale_temporary_files_are_removed_if_asked(tmp_path: Path) -> None:
    ended, old = subprocess.Popen(["true"]), time.time() - STALE_SECONDS - 1
    ended.wait()
    names = {f".{ended.pid}.old.txt": old, f".{ended.pid}.new.txt": time.time(), f".{os.getpid()}.old.txt": old}
    for name, seconds in {**names, "mine.txt": old, ".mine.txt": old}.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    remove_temporary_files(tmp_path, only_stale=True)
    kept = {f".{ended.pid}.new.txt", f".{os.getpid()}.old.txt", "mine.txt", ".mine.txt"}
    assert {path.name for path in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe\xfd", b"[]", b"3"])
def test_corrupt_json_is_reported_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"a.json is corrupt: ") as caught:
        read_json(path)
    assert "\n" not in str(caught.value)


def test_corrupt_json_is_reported_with_its_source() -> None:
    with pytest.raises(CorruptFileError, match=r"^metrics.jsonl, line 2, is corrupt: "):
        parse_json('{"st', "metrics.jsonl, line 2,")


@pytest.mark.parametrize("content", [b"model = ", b"\xff", b"a = 1\na = 2"])
def test_corrupt_toml_is_reported_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"run.toml is corrupt: "):
        read_toml(path)


def test_a_missing_file_is_not_corrupt(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "a.json")
