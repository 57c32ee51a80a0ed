"""`./ch` and its set-up, with a fake Python: nothing is downloaded or installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TOOLS = "cat cmp cp date dirname ls mkdir mv readlink rm rmdir sed sh sleep tail touch true"

# Acts as python3, as the python in .venv, and as pip; writes its arguments to $LOG.
FAKE_PYTHON = """#!/bin/sh
printf '%s\\n' "$*" >>"$LOG"
case $* in
    "-c import sys, sys;"*) exit "${TOO_OLD:-0}" ;;
    "-c import sys, ensurepip;"*) exit "${NO_VENV:-0}" ;;
    "-c import sys, pip;"*) exit 0 ;;
    "-m venv --clear "*) rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    "-m pip install "*) echo "pip's progress" && ${PIP_DOES:-true} ;;
    "-m jupyterlab"*) printf '<%s>' "$@" ;;
    "script.py"*) printf '<%s>' "$@" ;;
    "-P -m chop"*) shift 3 && printf '<%s>' "$@" && pwd && exit "${CH_EXIT:-0}" ;;
    *) exit 99 ;;
esac
"""


@dataclass(frozen=True)
class Checkout:
    """A copy of the launcher, and a PATH with a few tools and the fake python3."""

    folder: Path
    bin: Path
    log: Path

    def environment(self, **settings: object) -> dict[str, str]:
        given = {name: str(value) for name, value in settings.items()}
        return {"PATH": str(self.bin), "LOG": str(self.log), **given}

    def start(self, *arguments: str, **settings: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.folder / "ch"), *arguments],
            env=self.environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, *arguments: str, command: Path | None = None, cwd: Path | None = None, **settings: object
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(command or self.folder / "ch"), *arguments],
            env=self.environment(**settings),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self) -> str:
        """Return the calls of the fake Python since the last time: v for venv, p for pip, c for chop."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        letters = {"-m venv": "v", "-m pip": "p", "-P -m": "c"}
        return "".join(letter for line in lines for start, letter in letters.items() if start in line)

    def wait_for_pip(self) -> None:
        deadline = time.monotonic() + 30
        while not (self.log.exists() and "-m pip install" in self.log.read_text()):
            assert time.monotonic() < deadline, "pip was never called"
            time.sleep(0.02)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder, bin = tmp_path / "a checkout", tmp_path / "bin"
    bin.mkdir()
    for tool in TOOLS.split():
        found = shutil.which(tool)
        assert found, f"{tool} is missing on this machine"
        (bin / tool).symlink_to(found)
    write_script(bin / "python3", FAKE_PYTHON)
    folder.mkdir()
    for name in ("ch", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    return Checkout(folder, bin, tmp_path / "log")


def write_script(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_first_start_sets_up_and_runs(checkout: Checkout) -> None:
    result = checkout.run("transform", "--x", "two words")
    assert result.returncode == 0
    assert result.stdout.startswith("<transform><--x><two words>")
    assert "setting up .venv (core)" in result.stderr
    assert (checkout.folder / ".venv.log").read_text().startswith("pip's progress\n")
    assert "pip's progress" not in result.stderr
    assert len(result.stderr.splitlines()) == 2
    assert checkout.calls() == "vpc"


def test_locked_versions_are_installed(checkout: Checkout) -> None:
    checkout.run()
    assert "-c constraints.txt -e .[data,search]\n" in checkout.log.read_text()


def test_later_start_only_runs(checkout: Checkout) -> None:
    checkout.run()
    checkout.calls()
    result = checkout.run("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert checkout.log.read_text() == "-P -m chop --help\n"


def test_exit_code_is_that_of_the_command(checkout: Checkout) -> None:
    assert checkout.run(CH_EXIT=2).returncode == 2


@pytest.mark.parametrize("name", ["constraints.txt", "pyproject.toml"])
def test_changed_dependencies_are_installed_into_the_same_venv(checkout: Checkout, name: str) -> None:
    checkout.run()
    with (checkout.folder / name).open("a") as file:
        file.write("# changed\n")
    assert checkout.run().returncode == 0
    assert checkout.calls() == "vpc" + "pc"
    checkout.run()
    assert checkout.calls() == "c"


def test_moved_checkout_is_set_up_again(checkout: Checkout, tmp_path: Path) -> None:
    checkout.run()
    checkout.calls()
    moved = checkout.folder.rename(tmp_path / "moved")
    assert checkout.run(command=moved / "ch").returncode == 0
    assert checkout.calls() == "pc"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_set_up_starts_again(checkout: Checkout, number: signal.Signals) -> None:
    process = checkout.start(PIP_DOES="sleep 30")
    checkout.wait_for_pip()
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (-number if number == signal.SIGKILL else 130, "")
    if number != signal.SIGKILL:
        assert "set-up interrupted: the next command starts it again" in err
        assert not (checkout.folder / ".venv.lock").exists()
    checkout.calls()

    result = checkout.run()
    assert result.returncode == 0
    assert "the last set-up did not finish: starting again" in result.stderr
    assert checkout.calls() == "vpc"
    assert checkout.run().stderr == ""


def test_failed_installation_is_reported_and_retried(checkout: Checkout) -> None:
    result = checkout.run(PIP_DOES="false")
    assert (result.returncode, result.stdout) == (1, "")
    log = checkout.folder / ".venv.log"
    assert f"cannot install the dependencies: see {log}, check the network" in result.stderr
    assert result.stderr.endswith(", and run this again.\n")
    assert checkout.calls() == "vp"
    assert checkout.run().returncode == 0
    assert checkout.calls() == "vpc"


def test_venv_without_python_is_created_again(checkout: Checkout) -> None:
    checkout.run()
    checkout.calls()
    python = checkout.folder / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/no/such/python")
    assert checkout.run().returncode == 0
    assert checkout.calls() == "vpc"


@pytest.mark.slow
def test_two_first_starts_install_once_and_both_run(checkout: Checkout) -> None:
    first, second = (checkout.start(PIP_DOES="sleep 1.5") for _ in range(2))
    messages = first.communicate(timeout=60)[1] + second.communicate(timeout=60)[1]
    assert (first.returncode, second.returncode) == (0, 0)
    assert messages.count("waiting for another set-up (process ") == 1
    assert sorted(checkout.calls()) == sorted("vpcc")
    assert not (checkout.folder / ".venv.lock").exists()


def test_lock_of_a_dead_process_is_taken_over(checkout: Checkout) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    lock = checkout.folder / ".venv.lock"
    lock.mkdir()
    (lock / str(dead.pid)).touch()
    assert checkout.run().returncode == 0
    assert not lock.exists()


def test_lock_without_a_holder_is_removed(checkout: Checkout) -> None:
    (checkout.folder / ".venv.lock").mkdir()
    assert checkout.run().returncode == 0
    assert not (checkout.folder / ".venv.lock").exists()


def test_interrupted_wait_leaves_the_lock_alone(checkout: Checkout) -> None:
    lock = checkout.folder / ".venv.lock"
    lock.mkdir()
    (lock / str(os.getpid())).touch()
    process = checkout.start()
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert [file.name for file in lock.iterdir()] == [str(os.getpid())]


def test_launcher_runs_in_the_current_folder(checkout: Checkout, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    for _ in ("with set-up", "without"):
        assert checkout.run(cwd=elsewhere).stdout == f"<>{elsewhere}\n"
    assert list(elsewhere.iterdir()) == []


def test_launcher_runs_through_symlinks(checkout: Checkout, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / "absolute").symlink_to(checkout.folder / "ch")
    (links / "relative").symlink_to("../a checkout/ch")
    (links / "chained").symlink_to("relative")
    (tmp_path / "linked").symlink_to(checkout.folder)
    commands = [links / "absolute", links / "relative", links / "chained", tmp_path / "linked" / "ch"]
    for command in commands:
        assert checkout.run(command=command, cwd=tmp_path).returncode == 0
    assert checkout.calls() == "vp" + "c" * len(commands)


def test_launcher_runs_by_its_bare_name(checkout: Checkout) -> None:
    result = checkout.run("ch", command=checkout.bin / "sh", cwd=checkout.folder)
    assert result.returncode == 0


@pytest.mark.parametrize("words", [("setup", "--help"), ("notebook", "--help")])
def test_help_installs_nothing(checkout: Checkout, words: tuple[str, ...]) -> None:
    result = checkout.run(*words)
    assert result.returncode == 0
    assert result.stdout.startswith("usage: ")
    assert checkout.calls() == ""


def test_missing_python_is_reported(checkout: Checkout) -> None:
    (checkout.bin / "python3").unlink()
    result = checkout.run()
    assert (result.returncode, result.stdout) == (1, "")
    assert "Python 3.11 or newer was not found: install it, or set CHOP_PYTHON to its path" in result.stderr


def test_old_python_is_not_used(checkout: Checkout) -> None:
    result = checkout.run(TOO_OLD=1)
    assert result.returncode == 1
    assert "Python 3.11 or newer was not found" in result.stderr


def test_newer_python_is_found_next_to_an_old_one(checkout: Checkout) -> None:
    write_script(checkout.bin / "python3.12", FAKE_PYTHON)
    write_script(checkout.bin / "python3", "#!/bin/sh\nexit 1\n")
    assert checkout.run().returncode == 0


def test_missing_venv_module_is_reported(checkout: Checkout) -> None:
    result = checkout.run(NO_VENV=1)
    assert result.returncode == 1
    assert "python3 has no venv module: install it (Debian and Ubuntu: apt install" in result.stderr


def test_chop_python_selects_the_python(checkout: Checkout) -> None:
    (checkout.bin / "python3").rename(checkout.bin / "my python")
    assert checkout.run(CHOP_PYTHON=checkout.bin / "my python").returncode == 0


def test_wrong_chop_python_is_reported(checkout: Checkout) -> None:
    result = checkout.run(CHOP_PYTHON="/no/such/python")
    assert result.returncode == 1
    assert "CHOP_PYTHON=/no/such/python is not Python 3.11 or newer" in result.stderr


def test_folder_without_write_access_is_reported(checkout: Checkout) -> None:
    # chmod would not stop root from writing.
    write_script(checkout.bin / "mkdir", "#!/bin/sh\necho no entry >&2\nexit 1\n")
    result = checkout.run()
    assert result.returncode == 1
    assert f"cannot write to {checkout.folder} (no entry): check its owner" in result.stderr


def test_full_disk_at_the_last_step_is_reported(checkout: Checkout) -> None:
    result = checkout.run(PIP_DOES="mkdir .venv/ready-core")  # in the way of the record
    assert result.returncode != 0
    assert "cannot write " in result.stderr
    assert checkout.calls() == "vp"


def test_development_set_up_has_its_own_record(checkout: Checkout) -> None:
    set_up = checkout.folder / "scripts/setup.sh"
    assert checkout.run("dev", command=set_up).returncode == 0
    assert "-c constraints.txt -e .[data,search,dev]\n" in checkout.log.read_text()
    checkout.run("dev", command=set_up)
    checkout.run()
    assert checkout.calls() == "vp" + "c"


def test_core_set_up_is_extended_for_development(checkout: Checkout) -> None:
    checkout.run()
    checkout.run("dev", command=checkout.folder / "scripts/setup.sh")
    assert checkout.calls() == "vpc" + "p"


def test_failed_installation_shows_the_errors_of_pip(checkout: Checkout) -> None:
    write_script(checkout.bin / "fail", "#!/bin/sh\necho 'ERROR: No matching distribution found for x'\nexit 1\n")
    result = checkout.run(PIP_DOES="fail")
    assert result.returncode == 1
    assert "ERROR: No matching distribution found for x\n" in result.stderr


def test_setup_installs_extras_into_the_same_venv(checkout: Checkout) -> None:
    assert checkout.run("setup", "mysql", "wandb").returncode == 0
    assert "-e .[data,search,mysql]\n" in checkout.log.read_text()
    assert checkout.calls() == "vp" + "p"
    checkout.run("setup", "wandb")
    assert checkout.run("--help").stderr == ""
    assert checkout.calls() == "c"


def test_unknown_extra_is_reported(checkout: Checkout) -> None:
    result = checkout.run("setup", "mysq")
    assert (result.returncode, checkout.calls()) == (2, "")
    assert result.stderr.startswith("ch: unknown extra 'mysq'; known are data search ")


def test_python_and_notebook_run_in_the_venv(checkout: Checkout) -> None:
    assert checkout.run("python", "script.py", "two words").stdout == "<script.py><two words>"
    assert checkout.run("notebook", "--no-browser").stdout == "<-m><jupyterlab><--no-browser>"
    assert "-e .[data,search,notebook]\n" in checkout.log.read_text()
