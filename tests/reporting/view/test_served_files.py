"""Files outside of the project, hidden and temporary files, weights and code are not served."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chop.reporting.view.served_files import find_file, find_served_run, list_files
from chop.runs import RunFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "out/run/run.toml",
        "out/run/report.html",
        "out/run/best.ckpt",
        "out/run/.summary.json.77",
        "secret.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    return tmp_path / "out"


def test_a_report_is_served(root: Path) -> None:
    assert find_file(root, ("run", "report.html")) == (root / "run/report.html").resolve()


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("",),
        ("run",),
        ("run", ""),
        ("run", "missing.json"),
        ("run", "best.ckpt"),
        ("run", ".summary.json.77"),
        ("..", "secret.json"),
        ("run", "..", "..", "secret.json"),
        ("run", "../../secret.json"),
        ("run/report.html",),
        ("run", "..\\report.html"),
        ("run", "report.html\0"),
        ("run", "\0.html"),
        (".", "run", "report.html"),
        ("run", "a" * 5000 + ".json"),
        ("run", "\udcff.json"),
    ],
)
def test_other_paths_are_not_served(root: Path, parts: tuple[str, ...]) -> None:
    assert find_file(root, parts) is None


def test_an_absolute_path_is_not_served(root: Path) -> None:
    assert find_file(root, (str(root.parent / "secret.json"),)) is None


def test_links_are_followed_only_within_the_project(root: Path) -> None:
    (root / "run/within.json").symlink_to(root / "run/real.json")
    (root / "run/real.json").write_text("{}")
    (root / "run/out.json").symlink_to(root.parent / "secret.json")
    (root / "run/weights.json").symlink_to(root / "run/best.ckpt")
    (root / "run/temporary.json").symlink_to(root / "run/.summary.json.77")
    (root / "run/circle.json").symlink_to(root / "run/circle.json")
    (root / "outside").symlink_to(root.parent)
    assert find_file(root, ("run", "within.json")) == (root / "run/real.json").resolve()
    for name in ("out.json", "weights.json", "temporary.json", "circle.json"):
        assert find_file(root, ("run", name)) is None
    assert find_file(root, ("outside", "secret.json")) is None
    assert find_served_run(root, "outside") is None
    assert find_served_run(root, "run") == RunFolder(root / "run")


def test_a_pipe_is_not_served(root: Path) -> None:
    os.mkfifo(root / "run/pipe.json")
    assert find_file(root, ("run", "pipe.json")) is None


@pytest.mark.parametrize("name", ["", "..", ".", "run/..", "/", "missing", ".hidden", "notes", "run\0"])
def test_a_run_is_a_visible_folder_directly_in_the_project(root: Path, name: str) -> None:
    (root / ".hidden").mkdir()
    (root / ".hidden/run.toml").write_text("")
    (root / "notes").mkdir()
    assert find_served_run(root, name) is None


def test_only_served_files_are_listed(root: Path) -> None:
    (root / "run/search").mkdir()
    (root / "run/search/pareto.csv").write_text("a\n1\n")
    assert list(list_files(root / "run")) == [("report.html",), ("run.toml",), ("search", "pareto.csv")]
