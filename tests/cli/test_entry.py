"""The command line: what it reads, what it says to a mistake, and what it does not import."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chop
from chop.cli import entry as cli
from chop.cli.settings import Settings
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


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["--help"], ["--version"], ["train", "--help"], ["info", "--help"]),
        *(
            ["report", "--help"],
            ["explain", "--help"],
            ["view", "--help"],
            ["search", "--help"],
            ["train", "a", "b", "--show-config"],
        ),
    ],
)
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


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main([*arguments, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_lists_the_actions(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys)
    for line in ("train  ", "test  ", "transform\n", "report  ", "explain  ", "view  ", "info  "):
        assert f"    {line}" in text


def test_help_is_grouped_with_aliases_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "train")
    for line in ("--config PATH", "--load, --load-name PATH", "--cpu, --num-workers N", "--plugin, --plugins PATH"):
        assert f"  {line} " in text
    assert "samples in a batch (or several: 1,2,3; default: 128)" in text
    assert "processes that load data besides the main one (default: 0)" in text
    for group in ("training:", "this run:", "data:", "machine:", "output:", "examples:"):
        assert f"\n{group}\n" in text


def test_an_option_of_no_action_is_missing_from_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "transform")
    assert "--max-epochs" not in text
    assert "or several" not in text
    assert "passes" not in text.split("options:")[1].split("examples:")[0].replace("or passes;", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trasnform"], "unknown action 'trasnform', did you mean 'transform'?"),
        (["transform", "a", "b", "c"], "unexpected argument 'c'"),
        (["transform", "--max-epochs", "8"], "'--max-epochs' is no option of ch transform, but of ch train"),
        (["transform", "a", "b", "--seed", "1,2"], "'seed' takes one value: lists of them are for ch train"),
        (["train", "a", "b", "--seed", "1,x"], "command line: 'seed' must be int, got 'x' (str)"),
        (["train", "a", "b", "--seed", "1,"], "command line: 'seed' must be int, got '' (str)"),
        (["train", "a", "b", "--seed", "1,-2"], "train: 'seed' must be at least 0, got -2"),
        (
            ["train", "a", "b", "--data-option", "x"],
            "command line: a data option is written as name=value, got 'x'",
        ),
        (["info"], "the following arguments are required: KIND"),
        (["info", "foramts"], "unknown kind 'foramts', did you mean 'formats'?"),
        (["info", "formats", "--plugni", "a"], "unknown option '--plugni' of ch info, did you mean '--plugin'?"),
        (["info", "formats", "integr"], "unknown format 'integr', did you mean 'integer'?"),
        (["info", "ops", "liner"], "unknown op 'liner', did you mean 'linear'?"),
        (["info", "passes", "quantise"], "unknown pass 'quantise', did you mean 'quantize'?"),
        (["info", "models", "jsc-tyo"], "unknown model 'jsc-tyo', did you mean 'jsc-toy'?"),
        (["info", "datasets", "jcs"], "unknown data set 'jcs', did you mean 'jsc'?"),
        (["transform", "--btach-size", "8"], "unknown option '--btach-size', did you mean '--batch-size'?"),
        (["transform", "--btach-size=8"], "unknown option '--btach-size', did you mean '--batch-size'?"),
        (["transform", "--batch-size"], "argument --batch-size: expected one argument"),
        (["transform", "--batch-size", "x"], "command line: 'batch_size' must be int, got 'x' (str)"),
        (["transform", "--batch-size", "0", "a", "b"], "transform: 'batch_size' must be at least 1, got 0"),
        (["transform", "--cpu", "-1", "a", "b"], "transform: 'num_workers' must be at least 0, got -1"),
        (["train", "--learning-rate", "x"], "command line: 'learning_rate' must be float, got 'x' (str)"),
        (["transform", "jsc-toy"], "transform: needs 'dataset'"),
        (["transform"], "transform: needs 'model'"),
        (["report", "a", "b"], "unexpected argument 'b'"),
        (["report", "--seed", "1"], "'--seed' is no option of ch report, but of ch train"),
        (["report", "--smaples", "1"], "unknown option '--smaples', did you mean '--samples'?"),
        (["report", "--show-config"], "'--show-config' is no option of ch report, but of ch train"),
        (["report", "--samples", "0"], "report: 'samples' must be at least 1, got 0"),
        (["view", "--port", "65536"], "view: 'port' must be at most 65535, got 65536"),
        (["view", "--port", "x"], "command line: 'port' must be int, got 'x' (str)"),
        (
            ["explain", "--project-dir", "nowhere"],
            "there is no finished run in 'nowhere'; --project-dir names another folder",
        ),
        (["transform", "--config", "no.toml"], "cannot read no.toml: No such file or directory"),
        (["transform", "--config", "."], "cannot read .: Is a directory"),
    ],
)
def test_a_mistake_is_answered_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert mistake(capsys, *arguments) == message


def test_the_usage_names_what_stands_without_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert help_of(capsys, "train").startswith("usage: ch train [MODEL DATASET] [--config FILE] [options]\n")
    assert help_of(capsys, "report").startswith("usage: ch report [RUN] [options]\n")
    assert help_of(capsys, "explain").startswith("usage: ch explain [RUN] [NODE] [options]\n")
    text = help_of(capsys, "view")
    assert text.startswith("usage: ch view [FOLDER] [options]\n")
    assert "folder that holds the runs (default: mase_output)" in text
    assert "--show-config" not in text


def test_an_action_without_results_says_nothing_of_a_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chop.actions.explain.explain", lambda config: None)
    assert cli.main(["explain", "a", "b"]) == 0
    assert capsys.readouterr().out == ""


def test_a_wrong_choice_names_all_and_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    message = mistake(capsys, "transform", "--accelerator", "gup")
    assert message == (
        "command line: 'accelerator' must be 'auto' or 'cpu' or 'gpu' or 'mps', got 'gup' (str), "
        "did you mean 'gpu'?"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = [\n", "not valid TOML: Invalid value (at end of document)"),
        ("model = 'a'\nseed = = 3\n", "not valid TOML: Invalid value (at line 2, column 8)"),
        ("batchsize = 3\n", "unknown key 'batchsize', did you mean 'batch_size'?"),
        ("batch_size = 'x'\n", "'batch_size' must be int, got 'x' (str)"),
        ("passes = 3\n", "'passes' must be a dict, got 3 (int)"),
        ("seed = []\n", "'seed' is an empty list"),
        ("seed = [1, 'x']\n", "'seed' must be int, got 'x' (str)"),
        ("data = 3\n", "'data' must be Path or None, got 3 (int)"),
        ("data_path = 'a'\n[data]\npath = 'b'\n", "'data_path' is given twice, as 'data_path' and 'data'"),
        ("config = 'b.toml'\n", "'config' belongs on the command line: a file cannot name another"),
        ("[pases.quantize]\n", "unknown key 'pases', did you mean 'passes'?"),
        (
            "[transform]\nstyle = 'grph'\n",
            "transform: 'style' must be 'graph' or 'module', got 'grph' (str), did you mean 'graph'?",
        ),
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
    def run_action(settings: Settings) -> Path:
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


def test_ctrl_c_passes_on_what_an_action_has_to_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "run_action", raising(KeyboardInterrupt("go on with --resume")))
    assert cli.main(["train", "a", "b"]) == 130
    assert capsys.readouterr().err == "ch: interrupted: go on with --resume\n"


def test_ctrl_c_is_one_line_and_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "run_action", raising(KeyboardInterrupt()))
    assert cli.main(["transform", "a", "b"]) == 130
    assert capsys.readouterr().err == "ch: interrupted\n"


@pytest.mark.parametrize(
    ("options", "level"),
    [({}, "INFO"), ({"log_level": "error"}, "ERROR"), ({"debug": True}, "DEBUG"), ({"no_warnings": True}, "ERROR")],
)
def test_the_log_is_as_loud_as_asked_for(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], level: str
) -> None:
    monkeypatch.setattr("chop.actions.transform.transform", lambda config: Path("out"))
    settings = Settings("transform", {"model": "a", "dataset": "b", **options}, {})
    assert cli.run_action(settings) == Path("out")
    assert logging.getLevelName(logging.getLogger("chop").level) == level


def test_a_list_runs_the_grid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run_grid(action: Any, configs: list[Any], varied: tuple[str, ...]) -> Path:
        assert (action.__name__, varied) == ("train", ("batch_size", "seed"))
        assert [(each.batch_size, each.seed) for each in configs] == [(4, 0), (4, 1), (8, 0), (8, 1)]
        return Path("out")

    monkeypatch.setattr("chop.training.grid.run_grid", run_grid)
    assert cli.main(["train", "a", "b", "--batch-size", "4,8", "--seed", "0,1"]) == 0
    assert capsys.readouterr().out == "saved in out\n"


@pytest.mark.parametrize("how", [["--debug"], ["--log-level", "debug"], ["--log-level=debug"]])
def test_the_debug_level_shows_where_it_went_wrong(capsys: pytest.CaptureFixture[str], how: list[str]) -> None:
    assert cli.main(["train", "jsc-toy", *how]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1] == "ch: error: train: needs 'dataset'"


def test_a_file_asks_for_the_traceback_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "debug = true\nmodel = 'no-such-model'\ndataset = 'jsc'\n")
    assert cli.main(["transform", "--config", file]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("ch: error: unknown model 'no-such-model'")


@pytest.mark.slow
def test_a_missing_package_names_the_extra_that_brings_it() -> None:
    code = "import sys; sys.modules['optuna'] = None; from chop.cli import main; sys.exit(main(sys.argv[1:]))"
    result = run_python(code, "search", "jsc-tiny", "jsc")
    assert result.returncode == 2
    assert result.stderr == "ch: error: this needs the package 'optuna': pip install 'chop[search]'\n"
