"""Checkpoints are complete, whatever happens while one is written."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from chop.training.checkpoint import (
    keep_as_best,
    load_model_state,
    model_state,
    random_state,
    read_checkpoint,
    seed_all,
    set_random_state,
    write_checkpoint,
)

CONTENT = {"state_dict": {"model.x": torch.ones(3)}, "optimizer": {}, "step": 1}


class Killed(BaseException):
    """An exception that the package does not catch."""


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def killed(*_: object) -> None:
    raise Killed


def test_a_checkpoint_is_read_as_written(tmp_path: Path) -> None:
    write_checkpoint(CONTENT, tmp_path / "last.ckpt")
    assert read_checkpoint(tmp_path / "last.ckpt")["state_dict"]["model.x"].equal(torch.ones(3))
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_full_disk_is_reported_and_keeps_the_previous_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "last.ckpt"
    write_checkpoint(CONTENT, path)
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(
        OSError, match=r"cannot save .*last.ckpt: No space left on device; the previous checkpoint is intact"
    ):
        write_checkpoint({**CONTENT, "step": 2}, path)
    assert read_checkpoint(path)["step"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_kill_keeps_the_previous_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    path = tmp_path / "last.ckpt"
    write_checkpoint(CONTENT, path)
    monkeypatch.setattr(os, where, killed)
    with pytest.raises(Killed):
        write_checkpoint({**CONTENT, "step": 2}, path)
    assert read_checkpoint(path)["step"] == 1


def test_the_best_checkpoint_stays_when_the_last_is_replaced(tmp_path: Path) -> None:
    last = tmp_path / "last.ckpt"
    write_checkpoint(CONTENT, last)
    keep_as_best(last, tmp_path / "best.ckpt")
    write_checkpoint({**CONTENT, "step": 2}, last)
    assert read_checkpoint(tmp_path / "best.ckpt")["step"] == 1
    keep_as_best(last, tmp_path / "best.ckpt")
    assert read_checkpoint(tmp_path / "best.ckpt")["step"] == 2


def test_the_best_checkpoint_is_copied_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(CONTENT, tmp_path / "last.ckpt")
    monkeypatch.setattr(os, "link", full_disk)
    keep_as_best(tmp_path / "last.ckpt", tmp_path / "best.ckpt")
    assert read_checkpoint(tmp_path / "best.ckpt")["step"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is nothing to resume: "),
        (b"PK\x03\x04", "is corrupt"),
        ({"x": 1}, "was not written by ch train"),
    ],
)
def test_a_file_that_is_not_a_checkpoint_is_named(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "last.ckpt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(ValueError, match=message) as caught:
        read_checkpoint(path)
    assert "last.ckpt" in str(caught.value)


def test_weights_have_the_names_of_lightning() -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    state = model_state(model)
    assert list(state) == ["model.weight", "model.bias"]
    load_model_state(other, state)
    assert other.weight.equal(model.weight)


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(1))


def test_random_numbers_continue_from_a_saved_state(tmp_path: Path) -> None:
    seed_all(3)
    first = draw()
    torch.save(random_state(), tmp_path / "state")
    second = draw()
    seed_all(3)
    assert draw() == first != second
    set_random_state(torch.load(tmp_path / "state", weights_only=True))
    assert draw() == second
