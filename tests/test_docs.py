"""Every command and snippet of the documentation, and every example configuration, runs unchanged."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from docs_tables import __main__ as docs

from command_server import CommandServer

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
CONFIGS = sorted((ROOT / "configs").glob("**/*.toml"))
MODEL_PAGES = sorted((ROOT / "docs" / "models").glob("*.md"))  # need the models that `make test-models` downloads
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
THIS_RUN = re.compile(r"make (test|check)")  # would run this file again


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in FENCE.findall(page.read_text()) if language in languages]


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Return the shell commands of a page; those of a console block with the output shown below them."""
    found: list[tuple[str, list[str]]] = []
    for text in blocks(page, "bash"):
        found += [(line, []) for line in text.splitlines() if line and not line.startswith("#")]
    for text in blocks(page, "console"):
        for line in text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line != "...":
                found[-1][1].append(line)
    return [(command, shown) for command, shown in found if not THIS_RUN.match(command)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest, command_server: CommandServer) -> Path:
    """A folder with what the commands of a page use from a checkout, and a `ch` that skips the set-up."""
    if request.node.callspec.params.get("page") in MODEL_PAGES:
        models = os.environ.get("CHOP_MODELS")
        if models is None:
            pytest.skip("needs large models: make test-models")
        (tmp_path / ".models").symlink_to(models)
    for name in ("configs", "docs", "src", "Makefile"):
        (tmp_path / name).symlink_to(ROOT / name)
    command_server.write_command(tmp_path / "ch", "-m", "chop")
    command_server.write_command(tmp_path / "run_page", "page.py")
    return tmp_path


def run(command: list[str], cwd: Path) -> str:
    alone = {"CHOP_OFFLINE": "1", "OMP_NUM_THREADS": "1"}  # leave the other cores to other tests
    alone["BROWSER"] = "true"  # `--open` starts a command that does nothing
    environment = os.environ | alone | {"PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_commands_of_a_page_run_and_print_the_output_shown(page: Path, folder: Path) -> None:
    for command, shown in commands(page):
        printed = run(["sh", "-c", command], folder).splitlines()
        assert [line for line in shown if line not in printed] == [], command


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_python_of_a_page_runs_and_prints_the_numbers_shown(page: Path, folder: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    (folder / "page.py").write_text(code)
    printed = run(["./run_page"], folder).splitlines()
    for number in re.findall(r"^print\(.*\)  # (\d.*)$", code, re.MULTILINE):
        assert number in printed


def runs_in_a_page(config: Path) -> bool:
    """Whether a command of a page reads a configuration, and no checkpoint."""
    option = f"--config {relative(config)}"
    found = [command for page in PAGES if page not in MODEL_PAGES for command, _ in commands(page)]
    return any(
        re.match(r"\./ch (search|transform) ", each) and option in each and "--load" not in each for each in found
    )


@pytest.mark.slow
@pytest.mark.parametrize("config", [each for each in CONFIGS if not runs_in_a_page(each)], ids=relative)
def test_example_configuration_runs(config: Path, folder: Path) -> None:
    plugin = ROOT / "configs" / "examples" / "my_networks.py"
    action = ["transform"] if "[passes" in config.read_text() else ["search", "--n-trials", "2"]
    run(["./ch", *action, "--config", str(config), "--trust", str(plugin)], folder)


@pytest.mark.parametrize("name", docs.PAGES)
def test_tables_of_a_page_match_the_registries(name: str) -> None:
    text = (ROOT / "docs" / name).read_text()
    assert docs.fill(text) == text, "run `make docs` to update the tables"


def test_every_page_with_a_table_is_updated() -> None:
    marked = [page.name for page in PAGES if re.search("^<!-- table: ", page.read_text(), re.MULTILINE)]
    assert sorted(marked) == sorted(docs.PAGES)


@pytest.mark.slow
def test_update_replaces_the_old_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in docs.PAGES:
        (tmp_path / name).write_text("above\n<!-- table: formats -->\nthe old\n<!-- end -->\nbelow\n")
    docs.main(tmp_path)
    text = (tmp_path / "formats.md").read_text()
    assert text.startswith("above\n<!-- table: formats -->\n\n| name | ")
    assert text.endswith(" |\n\n<!-- end -->\nbelow\n")
    assert "the old" not in text
    assert capsys.readouterr().out.count("updated ") == len(docs.PAGES)
    docs.main(tmp_path)
    assert capsys.readouterr().out == ""


def test_every_question_of_users_has_an_answer() -> None:
    answers = (ROOT / "docs" / "users-questions.md").read_text()
    assert re.findall(r"^(\d+)\. \*\*.*[.?]\*\* \S", answers, re.MULTILINE) == [str(n) for n in range(1, 23)]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_of_a_page_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def named_files(text: str) -> list[str]:
    """Return the files and folders of the checkout that a text names: `a/{b,c}.py` stands for two."""
    found = []
    for path in re.findall(r"`((?:src/chop|docs_tables|tests)/[^`*<> ]*)`", text):
        before, brace, rest = path.partition("{")
        inside, _, after = rest.partition("}")
        found += [f"{before}{part}{after}" for part in inside.split(",")] if brace else [path]
    return found


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert [path for path in named_files(page.read_text()) if not (ROOT / path).exists()] == []


def test_short_file_names_of_the_guide_exist() -> None:
    """A row names further files without their folder, as "`src/chop/exporting/` ... `proof.py`"."""
    rows = [row for row in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if row.startswith("| ")]
    missing = []
    for row in rows:
        folders = [(ROOT / path if path.endswith("/") else (ROOT / path).parent) for path in named_files(row)]
        names = re.findall(r"`(\w[\w/]*\.(?:py|js|css))`", row)
        missing += [
            name
            for name in names
            if not (ROOT / name).exists() and not any(list(folder.glob(f"**/{name}")) for folder in folders)
        ]
    assert missing == []


def test_files_are_found_in_a_text() -> None:
    assert named_files("`src/chop/a/{b,c}.py`, `src/chop/ops/` and `d.py`") == [
        *("src/chop/a/b.py", "src/chop/a/c.py"),
        "src/chop/ops/",
    ]


def test_commands_are_found_in_bash_and_console_blocks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\nls\n# a note\nmake test\n```\ntext\n```console\n$ pwd\n/here\n...\n```\n")
    assert commands(page) == [("ls", []), ("pwd", ["/here"])]
