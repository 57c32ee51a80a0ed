"""What all readers refuse."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chop.dataset.jsc_published import read_jets
from chop.dataset.readers.dispatch import KINDS, read_content
from chop.dataset.readers.image_files import read_archive, read_bytes
from chop.dataset.text_files import read_text
from chop.models import get_model_info
from chop.registry import UnknownNameError


@pytest.mark.parametrize("read", [read_jets, read_bytes, read_text, lambda path: read_archive(path, ())])
def test_no_reader_waits_for_a_pipe(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe' is a pipe or a device, not a file"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize("suffix", [*KINDS, ""])
def test_no_data_file_is_a_device(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix}").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="is a pipe or a device, not a file"):
        read_content(tmp_path / f"a{suffix}")


def test_the_class_in_a_pipe_is_not_looked_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.py")
    with pytest.raises(UnknownNameError, match=r"net.py' is a file, not a model: name the class or function in it"):
        get_model_info(str(tmp_path / "net.py"))
