"""Every command and snippet of the documentation, and every configuration, runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
CONFIGS = sorted((ROOT / "configs").glob("**/*.toml"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
THIS_RUN = re.compile(r"make (test|check)")  # would run this file again


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in FENCE.findall(page.read_text()) if language in languages]


def commands(page: Path) -> list[str]:
    """The shell commands of a page; in a console block those after the prompt."""
    lines = [line for text in blocks(page, "bash") for line in text.splitlines()]
    prompted = [line for text in blocks(page, "console") for line in text.splitlines()]
    lines += [line.removeprefix("$ ") for line in prompted if line.startswith("$ ")]
    return [line for line in lines if line and not line.startswith("#") and not THIS_RUN.match(line)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """An empty folder that looks like the checkout to a reader; `ch` skips the set-up, tested elsewhere."""
    for name in ("configs", "src", "Makefile"):
        (tmp_path / name).symlink_to(ROOT / name)
    ch = tmp_path / "ch"
    ch.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m chop "$@"\n')
    ch.chmod(0o755)
    return tmp_path


def run(command: list[str], cwd: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_the_commands_of_a_page_run(page: Path, workplace: Path) -> None:
    for command in commands(page):
        run(["sh", "-c", command], workplace)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_the_python_of_a_page_runs_and_prints_the_numbers_it_shows(page: Path, workplace: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    (workplace / "page.py").write_text(code)
    printed = run([sys.executable, "page.py"], workplace).splitlines()
    for number in re.findall(r"^print\(.*\)  # (\d.*)$", code, re.MULTILINE):
        assert number in printed


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=relative)
def test_a_configuration_runs(config: Path, workplace: Path) -> None:
    run(["./ch", "transform", "--config", str(config)], workplace)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_commands_are_found_in_blocks_of_either_kind(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\nls\n# a note\nmake test\n```\ntext\n```console\n$ pwd\n/here\n```\n")
    assert commands(page) == ["ls", "pwd"]
