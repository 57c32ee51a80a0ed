"""Locks between processes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chop.folder_lock import LOCK, OWNER, FolderLockedError, locked, only_writer


def test_a_second_process_waits_for_the_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []
    inside = threading.Event()

    def second() -> None:
        inside.wait(10)
        with locked(tmp_path, "downloading"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with caplog.at_level(logging.INFO, logger="chop"), locked(tmp_path, "downloading"):
        inside.set()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert caplog.messages == ["waiting for another process that is downloading"]


def test_a_second_writer_is_refused_and_learns_who_the_first_one_is(tmp_path: Path) -> None:
    with only_writer(tmp_path):
        with pytest.raises(
            FolderLockedError, match=rf"^process {os.getpid()} on [\w.-]+ is writing to {tmp_path}: "
        ):
            only_writer(tmp_path).__enter__()
        (tmp_path / OWNER).write_text("\x1b[2Jprocess 1 on here")
        with pytest.raises(FolderLockedError, match=r"^another process is writing to"):
            only_writer(tmp_path).__enter__()
    with only_writer(tmp_path):
        pass


@pytest.mark.slow
def test_the_lock_of_a_killed_process_does_not_block(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from chop.folder_lock import only_writer
with only_writer(Path({str(tmp_path)!r})):
    print("locked", flush=True)
    input()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    with pytest.raises(FolderLockedError, match=f"^process {process.pid} on "):
        only_writer(tmp_path).__enter__()
    process.kill()
    process.communicate()
    with only_writer(tmp_path):
        pass


def test_a_file_that_a_link_leads_to_is_not_changed(tmp_path: Path) -> None:
    """A run folder may come from somebody else."""
    for name in (LOCK, OWNER):
        (tmp_path / name).symlink_to(tmp_path / "mine")
    (tmp_path / "mine").write_text("text")
    with pytest.raises(OSError, match="symbolic links"):
        only_writer(tmp_path).__enter__()
    (tmp_path / LOCK).unlink()
    with only_writer(tmp_path):
        assert (tmp_path / "mine").read_text() == "text"
