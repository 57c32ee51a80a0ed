"""Python files run if the user names them or has run them, not because a configuration or a run names them."""

from __future__ import annotations

import importlib.util
import py_compile
import shlex
import shutil
import zipfile
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import chop
from chop import cli
from chop.cli import entry
from chop.models import get_model_info
from chop.plugins import load_object, load_plugin, source_files
from chop.runs import open_run
from chop.trusted_files import UntrustedFileError, check_trusted

NET = """
import pathlib
from subprocess import getoutput
from torch import nn

pathlib.Path("ran").write_text("x")

class Net(nn.Module):
    def __init__(self, info):
        super().__init__()
        self.layer = nn.Linear(info.num_features, info.num_classes)
    def forward(self, x):
        return self.layer(x)
"""
QUICK = ("--max-epochs", "1", "--max-steps", "1", "--accelerator", "cpu", "--report-to", "none")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a network that notes when it runs, in a process that has not run any file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    forget(monkeypatch)
    return tmp_path


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as a new process, which has not run any file."""
    monkeypatch.setattr("chop.plugins._loaded", {})
    Path("ran").unlink(missing_ok=True)


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("ch: error: ")
    assert err.count("\n") == 1, err
    return err.removeprefix("ch: error: ").rstrip("\n")


@pytest.fixture
def strangers_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder that somebody else sent: its network is in a file that this user has never run."""
    assert cli.main(["train", "net.py:Net", "toy_tiny", *QUICK]) == 0
    run = next((folder / "mase_output").iterdir())
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state of another user"))
    forget(monkeypatch)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "explain"])
def test_looking_at_a_strangers_run_runs_nothing(
    strangers_run: Path, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOP_LAUNCHER", "./ch")
    for words in ([command], [command, str(strangers_run)]):
        message = error_of(capsys, *words)
        file = Path("net.py").resolve()
        run = strangers_run if words[1:] else Path("mase_output") / strangers_run.name
        assert message == (
            f"{run}/run.toml names {file}, which you have not run before; "
            f"if you trust it: ./ch {shlex.join(words)} --trust {file}"
        )
        assert not Path("ran").exists()
    typed = shlex.split(message.partition("./ch ")[2])
    assert cli.main(typed) == 0
    assert Path("ran").exists()
    forget(monkeypatch)
    assert cli.main(words) == 0, "the file is remembered"


@pytest.mark.slow
def test_python_asks_for_confirmation_too(strangers_run: Path) -> None:
    with pytest.raises(
        UntrustedFileError, match=r"you have not run before; if you trust it: chop\.trust\('/.*net.py'\)"
    ):
        open_run(strangers_run)
    chop.trust("net.py")
    assert open_run(strangers_run).model is not None


@pytest.mark.slow
def test_an_own_run_is_opened_without_a_question(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["train", "net.py:Net", "toy_tiny", *QUICK]) == 0
    forget(monkeypatch)
    assert cli.main(["explain", "latest"]) == 0
    forget(monkeypatch)
    chop.train("net.py:Net", "toy_tiny", max_steps=1, accelerator="cpu", report_to="none")


@pytest.mark.slow
def test_a_changed_file_has_to_be_confirmed_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["train", "net.py:Net", "toy_tiny", *QUICK]) == 0
    forget(monkeypatch)
    (folder / "net.py").write_text(NET + "# changed\n")
    assert "/net.py, which has changed since you last ran it; if you trust it: " in error_of(capsys, "explain")
    assert not Path("ran").exists()
    (folder / "net.py").write_text(NET)
    assert cli.main(["explain"]) == 0, "an earlier content that the user has run is still known"


def test_the_same_content_elsewhere_is_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chop.trust("net.py")
    (folder / "copy").mkdir()
    shutil.copy("net.py", "copy/net.py")  # next to it there may be other files, which it imports
    check_trusted([Path("net.py")], Path("a.toml"))
    with pytest.raises(UntrustedFileError, match=r"a.toml names .*copy/net.py, which you have not run before"):
        check_trusted([Path("copy/net.py")], Path("a.toml"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["model = 'net.py:Net'\n", "model = 'net:Net'\n", "model = 'toy'\nplugins = ['net.py']\n"]
)
def test_a_configuration_file_runs_nothing_without_confirmation(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (folder / "a.toml").write_text(f"dataset = 'toy_tiny'\n{text}")
    words = ("test", "--config", "a.toml", "--accelerator", "cpu")
    assert error_of(capsys, *words).startswith(f"a.toml names {folder}/net.py, which you have not run before; ")
    assert not Path("ran").exists()
    assert cli.main([*words, "--show-config"]) == 0
    assert not Path("ran").exists()
    assert cli.main([*words, "--trust", "net.py"]) == 0
    assert Path("ran").exists()
    run = next((folder / "mase_output").iterdir())
    assert "trust" not in (run / "run.toml").read_text()


def test_a_file_cannot_confirm_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.toml").write_text("model = 'net.py:Net'\ndataset = 'toy_tiny'\ntrust = ['net.py']\n")
    message = error_of(capsys, "test", "--config", "a.toml")
    assert message == "a.toml: 'trust' can only be given on the command line"


@pytest.mark.slow
@pytest.mark.parametrize("line", ["trust = ['net.py']", "trust_remote_code = true"])
def test_a_run_folder_cannot_confirm_itself(
    strangers_run: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    config = strangers_run / "run.toml"
    config.write_text(f"{line}\n{config.read_text()}")
    name = line.partition(" ")[0]
    assert (
        error_of(capsys, "report")
        == f"mase_output/{strangers_run.name}/run.toml: '{name}' can only be given on the command line"
    )


CALLABLES = ("subprocess:getoutput", "timeit:timeit", "os:system", "sys:exit", "builtins:print", "net.py:getoutput")


@pytest.mark.slow
@pytest.mark.parametrize("reference", CALLABLES)
def test_functions_that_no_own_file_defines_are_never_called(
    reference: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = ("--data-option", "cmd=touch ran", "--model-option", "stmt=open('ran', 'w')")
    for words in ((reference, "toy_tiny"), ("toy", reference)):
        message = error_of(capsys, "test", *words, *option)
        Path("ran").unlink(missing_ok=True)  # written by net.py itself
        assert f"'{reference}' is of type " in message
        assert message.endswith(", or a function that your own file defines")


@pytest.mark.slow
def test_a_run_folder_cannot_call_functions(strangers_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (strangers_run / "run.toml").read_text()
    net = str(Path("net.py").resolve())
    for old, new in ((f"{net}:Net", "timeit:timeit"), ("toy_tiny", "subprocess:getoutput")):
        changed = text.replace(f"{net}:Net", "toy") if new.startswith("sub") else text
        (strangers_run / "run.toml").write_text(changed.replace(old, new))
        message = error_of(capsys, "report", str(strangers_run))
        assert "which you have not run before" in message
        assert not Path("ran").exists()


def test_classes_of_installed_packages_are_models() -> None:
    assert get_model_info("torch.nn:Flatten").make.__name__ == "Flatten"


def test_packages_are_found_without_importing_them(folder: Path) -> None:
    package = folder / "nets" / "small"
    package.mkdir(parents=True)
    for file in (package.parent / "__init__.py", package / "__init__.py", package / "net.py"):
        file.write_text("raise AssertionError('imported')\n")
    expected = [package.parent / "__init__.py", package / "__init__.py", package / "net.py"]
    assert source_files("nets.small.net:Net") == expected
    assert source_files("a/net.py:Net") == [Path("a/net.py")]
    assert source_files("toy") == source_files("no_module:x") == source_files("sys:x") == source_files(":") == []


@pytest.mark.parametrize(
    ("reference", "files"),
    [
        ("mod_a:ran", ["mod_a.py"]),
        ("mod-b:ran", ["mod-b.py"]),
        ("1x:ran", ["1x.py"]),
        ("sp ace:ran", ["sp ace.py"]),
        ("mod:é:ran", ["mod:é.py"]),
        ("pack-a.net:ran", ["pack-a/__init__.py", "pack-a/net.py"]),
        ("pack_b.x-y.net:ran", ["pack_b/__init__.py", "pack_b/x-y/__init__.py", "pack_b/x-y/net.py"]),
        ("space_a.net:ran", ["space_a/net.py"]),
        ("space_b.x-y.net:ran", ["space_b/x-y/net.py"]),
        ("space_c.b.c.net:ran", ["space_c/b/c/net.py"]),
        ("pack_e.no_such:ran", ["pack_e/__init__.py"]),
        ("./mod_f.py:ran", ["mod_f.py"]),
    ],
)
def test_no_other_files_run_than_those_that_are_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, reference: str, files: list[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(chop, "ran_files", ran, raising=False)
    for name in files:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("import chop\nran = True\nchop.ran_files.append(__file__)\n")
    checked = source_files(reference)
    with pytest.raises(UntrustedFileError):
        check_trusted(checked, Path("a.toml"))
    assert ran == []
    with suppress(ValueError):  # one of them does not exist
        load_object(reference)
    assert ran == [str(file.absolute()) for file in checked] == [str(folder / name) for name in files]


@pytest.mark.parametrize("reference", ["pack_f.:ran", "pack_f..net:ran", ".pack_f:ran", "..:ran", ":ran"])
def test_a_module_without_a_name_is_not_imported(folder: Path, reference: str) -> None:
    (folder / "pack_f").mkdir()
    (folder / "pack_f" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (folder / "pack_f" / ".py").write_text("raise AssertionError('imported')\n")
    (folder / ".py").write_text("raise AssertionError('imported')\n")
    assert source_files(reference) == []
    with pytest.raises(ValueError, match=r"^'"):
        load_object(reference)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["model = 'a-b:Net'\ndataset = 'toy_tiny'", "model = 'toy'\ndataset = 'a-b:Net'"])
def test_a_module_whose_name_is_not_an_identifier_needs_confirmation(
    folder: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    (folder / "net.py").rename("a-b.py")
    (folder / "a.toml").write_text(line)
    message = error_of(capsys, "test", "--config", "a.toml", "--accelerator", "cpu")
    assert message.startswith(f"a.toml names {folder}/a-b.py, which you have not run before; ")
    assert not Path("ran").exists()


def compile_to(compiled: Path, code: str) -> None:
    """Write compiled code that Python runs without looking at its source."""
    hidden = compiled.with_suffix(".hidden")
    hidden.parent.mkdir(exist_ok=True)
    hidden.write_text(code)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(hidden), cfile=str(compiled), invalidation_mode=mode)


@pytest.mark.parametrize("reference", ["{}.py:VALUE", "{}:VALUE"])
def test_compiled_code_next_to_a_file_is_not_run(folder: Path, reference: str) -> None:
    """A sent folder may hold compiled code of something else than the source that the user has read."""
    name = "shown_file" if ".py" in reference else "shown_module"
    shown = folder / f"{name}.py"
    shown.write_text("VALUE = 'shown'\n")
    compile_to(Path(importlib.util.cache_from_source(str(shown))), "VALUE = 'hidden'\n")
    assert load_object(reference.format(name)) == "shown"


def test_only_source_files_are_modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_to(folder / "compiled.pyc", "VALUE = 1\n")
    (folder / f"extension{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    with zipfile.ZipFile("nets.zip", "w") as archive:
        archive.writestr("zipped.py", "VALUE = 1\n")
    monkeypatch.syspath_prepend(str(folder / "nets.zip"))
    for name in ("compiled", "extension", "zipped"):
        assert source_files(f"{name}:VALUE") == []
        with pytest.raises(ValueError, match=f"module '{name}' does not exist; to use a file, write path/to"):
            load_object(f"{name}:VALUE")


def test_an_installed_module_does_not_import_files_of_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "lib").mkdir()
    monkeypatch.syspath_prepend(str(folder / "lib"))
    (folder / "lib" / "installed_a.py").write_text(
        "try:\n    import extra_a\nexcept ImportError:\n    extra_a = 0\n"
    )
    (folder / "extra_a.py").write_text("raise AssertionError('imported')\n")
    assert load_object("installed_a:extra_a") == 0


def test_a_link_to_a_file_is_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's folder may link to a file of the user, and have other files next to the link."""
    load_plugin(Path("net.py"))
    chop.trust("net.py")
    (folder / "sent").mkdir()
    Path("sent/net.py").symlink_to(folder / "net.py")
    with pytest.raises(UntrustedFileError, match=r"names /.*/sent/net.py, which you have not run before"):
        check_trusted([Path("sent/net.py")], Path("a.toml"))
    chop.trust("sent/net.py")
    check_trusted([Path("sent/net.py")], Path("a.toml"))


@pytest.mark.parametrize("reference", ["late_a.py:VALUE", "late_b:VALUE"])
def test_a_file_that_changes_after_the_check_does_not_run(folder: Path, reference: str) -> None:
    file = folder / f"{reference[:6]}.py"
    file.write_text("VALUE = 1\n")
    chop.trust(file)
    check_trusted(source_files(reference), Path("a.toml"))
    file.write_text("VALUE = 2\n")
    with pytest.raises(ValueError, match=r"late_..py' was changed after it was checked; repeat the command"):
        load_object(reference)
    assert load_object(reference) == 2, "the user repeats it"


def test_a_plug_in_that_exits_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "exits.py").write_text("import sys\n\nsys.exit(0)\n")
    message = error_of(capsys, "info", "models", "--plugin", "exits.py")
    assert message == f"{folder}/exits.py, line 3: SystemExit: 0"


@pytest.mark.slow
def test_a_model_that_exits_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "exits.py").write_text("import sys\n\ndef net():\n    sys.exit(3)\n")
    message = error_of(capsys, "test", "exits.py:net", "toy_tiny")
    assert message == f"{folder}/exits.py, line 4: SystemExit: 3"


@pytest.mark.slow
def test_files_run_if_they_cannot_be_recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "file"))
    assert entry.main(["test", "net.py:Net", "toy_tiny", "--accelerator", "cpu"]) == 0
    assert "cannot remember which Python files you run" in capsys.readouterr().err


def test_a_corrupt_record_confirms_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    chop.trust("net.py")
    store = folder / "state" / "chop" / "trusted_files.jsonl"
    check_trusted([Path("net.py")], Path("a.toml"))
    for content in (b"\xff\xfe", b"[1, 2]\n{}\nx\n", b"[]"):
        store.write_bytes(content)
        with pytest.raises(UntrustedFileError):
            check_trusted([Path("net.py")], Path("a.toml"))
