"""The wheel, the website and the files about the project."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import chop

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    alone = {"CHOP_OFFLINE": "1", "OMP_NUM_THREADS": "1", "NO_MKDOCS_2_WARNING": "1"} | environment
    kept = {name: value for name, value in os.environ.items() if name != "CHOP_LAUNCHER"}
    result = subprocess.run([*map(str, command)], cwd=cwd, env=kept | alone, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_the_wheel_works_without_the_launcher(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        (source / name).symlink_to(ROOT / name)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path / "dist", ".")
    run(*pip, *build, cwd=source)
    (wheel,) = (tmp_path / "dist").glob("chop_formats-*.whl")
    run(*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel, cwd=tmp_path)

    path = {"PYTHONPATH": str(tmp_path / "site")}
    where = run(sys.executable, "-P", "-c", "import chop; print(chop.__file__)", cwd=tmp_path, **path)
    assert Path(where.strip()).is_relative_to(tmp_path / "site")
    ch = tmp_path / "site" / "bin" / "ch"
    assert run(ch, "--version", cwd=tmp_path, **path) == f"ch {chop.__version__}\n"
    run(ch, "train", "toy", "toy_tiny", "--max-epochs", "1", cwd=tmp_path, **path)
    run(ch, "report", "--no-sensitivity", cwd=tmp_path, **path)  # needs the assets of the page
    assert list(tmp_path.glob("mase_output/*/report.html"))


def test_pages_in_the_navigation_of_the_website_exist() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    named = [page for entry in config["nav"] for pages in entry.values() for page in _pages(pages)]
    assert "index.md" in named
    assert [page for page in named if not ((ROOT / "docs" / page).is_file() or (ROOT / page).is_file())] == []


def _pages(entry: str | list[dict[str, str]]) -> list[str]:
    return [entry] if isinstance(entry, str) else [page for each in entry for page in each.values()]


@pytest.mark.slow
def test_the_website_can_be_built(tmp_path: Path) -> None:
    run(sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site", cwd=ROOT)
    assert "chop.api.sweep" in (tmp_path / "site" / "reference" / "index.html").read_text()
    assert (tmp_path / "site" / "search" / "search_index.json").is_file()
    assert 'href="../CONTRIBUTING/"' in (tmp_path / "site" / "architecture" / "index.html").read_text()


def test_versions_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == chop.__version__
    assert f"## [{chop.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_each_version_in_the_changelog_has_each_section_once() -> None:
    for version in (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]:
        sections = [line for line in version.splitlines() if line.startswith("### ")]
        assert len(set(sections)) == len(sections), version.partition("\n")[0]


def test_the_image_installs_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    line = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("RUN pip"))
    assert set(line.partition("[")[2].partition("]")[0].split(",")) <= set(extras)
