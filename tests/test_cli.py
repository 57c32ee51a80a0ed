"""The command line: what it reads, what it says to a mistake, and what it does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chop
from chop import cli
from chop.actions.config import TransformConfig
from chop.registry import UnknownNameError

HEAVY = {"torch", "numpy", "pandas", "safetensors", "tabulate"}


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that `ch` answers a mistake with."""
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ch: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("ch: error: ").rstrip("\n")


def read(*arguments: str) -> TransformConfig:
    name, config = cli.read_command(["transform", *arguments])
    assert name == "transform"
    assert isinstance(config, TransformConfig)
    return config


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["transform", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('HEAVY:', *sorted(set(sys.modules) & set(sys.argv[1].split(',')))))\n"
        "from chop.cli import main\n"
        "sys.exit(main(sys.argv[2:]))\n"
    )
    result = run_python(code, ",".join(HEAVY), *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("HEAVY:\n")


def test_importing_chop_imports_nothing_else() -> None:
    code = "import sys, chop; print(*sorted(m for m in sys.modules if m.split('.')[0] in sys.argv[1]))"
    assert run_python(code, f"chop,{','.join(HEAVY)}").stdout == "chop\n"


def test_the_package_offers_its_main_names_lazily() -> None:
    for name in chop.__all__:
        assert name in dir(chop)
        assert getattr(chop, name) is not None


def test_a_name_that_the_package_has_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'chop' has no attribute 'MaseGrph'$"):
        _ = chop.MaseGrph


def test_the_module_runs_as_a_command() -> None:
    result = subprocess.run([sys.executable, "-m", "chop", "--version"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"ch {chop.__version__}\n")


def test_help_has_a_line_for_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["transform", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for flag in ("--config PATH", "--load-name PATH, --load PATH", "--num-workers N, --cpu N"):
        assert flag in text
    assert "samples in a batch (default: 128)" in text


def test_defaults_are_below_the_file_and_the_file_below_the_command_line(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", 'model = "jsc-toy"\ndataset = "jsc"\nbatch_size = 4\nseed = 5\n')
    config = read("--config", file, "--batch-size", "16", "jsc-tiny")
    assert (config.model, config.dataset) == ("jsc-tiny", "jsc")
    assert (config.batch_size, config.seed, config.learning_rate) == (16, 5, 1e-3)


def test_options_have_the_names_that_users_know() -> None:
    config = read("jsc-toy", "jsc", "--task=classification", "--load=a.ckpt", "--load-type=pl", "--cpu=3")
    assert (config.task, config.num_workers) == ("cls", 3)
    assert (config.load_name, config.load_type) == (Path("a.ckpt"), "pl")


def test_passes_keep_the_order_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "[passes.z]\n[passes.a]\nx = 1\n[passes.m]\n")
    passes = read("jsc-toy", "jsc", "--config", file).passes
    assert list(passes) == ["z", "a", "m"]
    assert passes["a"] == {"x": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trasnform"], "unknown action 'trasnform', did you mean 'transform'?"),
        (["transform", "a", "b", "c"], "unexpected argument 'c'"),
        (["transform", "--btach-size", "8"], "unknown option '--btach-size', did you mean '--batch-size'?"),
        (["transform", "--btach-size=8"], "unknown option '--btach-size', did you mean '--batch-size'?"),
        (["transform", "--batch-size"], "argument --batch-size: expected one argument"),
        (["transform", "--batch-size", "x"], "command line: 'batch_size' must be int, got 'x' (str)"),
        (["transform", "--batch-size", "0", "a", "b"], "transform: 'batch_size' must be at least 1, got 0"),
        (["transform", "--cpu", "-1", "a", "b"], "transform: 'num_workers' must be at least 0, got -1"),
        (["transform", "--learning-rate", "x"], "command line: 'learning_rate' must be float, got 'x' (str)"),
        (["transform", "jsc-toy"], "transform: needs 'dataset'"),
        (["transform"], "transform: needs 'model'"),
        (["transform", "--config", "no.toml"], "cannot read no.toml: No such file or directory"),
        (["transform", "--config", "."], "cannot read .: Is a directory"),
    ],
)
def test_a_mistake_is_answered_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert mistake(capsys, *arguments) == message


def test_a_wrong_choice_names_all_and_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    message = mistake(capsys, "transform", "--accelerator", "gup")
    assert message == (
        "command line: 'accelerator' must be 'auto' or 'cpu' or 'gpu', got 'gup' (str), did you mean 'gpu'?"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = [\n", "not valid TOML: Invalid value (at end of document)"),
        ("model = 'a'\nseed = = 3\n", "not valid TOML: Invalid value (at line 2, column 8)"),
        ("batchsize = 3\n", "unknown key 'batchsize', did you mean 'batch_size'?"),
        ("batch_size = 'x'\n", "'batch_size' must be int, got 'x' (str)"),
        ("passes = 3\n", "'passes' must be a dict, got 3 (int)"),
        ("[transform]\nstyle = 'grph'\n", "transform: 'style' must be 'graph', got 'grph' (str)"),
    ],
)
def test_a_mistake_in_a_file_names_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    file = write(tmp_path / "a.toml", text)
    assert mistake(capsys, "transform", "--config", file).startswith(f"{file}: {message}")


def test_a_file_that_is_no_text_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"\xff\xfe")
    assert f"{file}: not valid TOML: " in mistake(capsys, "transform", "--config", str(file))


def raising(error: BaseException) -> Any:
    def run_action(name: str, config: TransformConfig) -> Path:
        raise error

    return run_action


@pytest.mark.parametrize(
    "error", [ValueError("it\nbroke"), UnknownNameError("it broke"), FileNotFoundError("it broke")]
)
def test_a_users_mistake_in_an_action_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(cli, "run_action", raising(error))
    assert mistake(capsys, "transform", "a", "b") == "it broke"


def test_our_own_mistake_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "run_action", raising(KeyError("it broke")))
    with pytest.raises(KeyError):
        cli.main(["transform", "a", "b"])


def test_ctrl_c_is_one_line_and_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "run_action", raising(KeyboardInterrupt()))
    assert cli.main(["transform", "a", "b"]) == 130
    assert capsys.readouterr().err == "ch: interrupted\n"


def test_the_debug_level_shows_where_it_went_wrong() -> None:
    command = [sys.executable, "-m", "chop", "transform", "no-such-model", "jsc", "--log-level", "debug"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("ch: error: unknown model 'no-such-model'")
