"""The command line: help, error messages, exit codes, and what it does not import."""

from __future__ import annotations

import logging
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chop
from chop.cli import entry as cli
from chop.config import ACTIONS
from chop.config.settings import Settings
from chop.registry import UnknownNameError
from chop.runs import RunFolder

HEAVY = {"torch", "numpy", "pandas", "safetensors", "tabulate"}


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run `ch` with wrong arguments and return its error message."""
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ch: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("ch: error: ").rstrip("\n")


QUANTIZE = "configs/examples/jsc_toy_by_type.toml"
IMPORTS_OF_A_COMMAND = """
import atexit, sys
atexit.register(lambda: print('HEAVY:', *sorted(set(sys.modules) & set(sys.argv[1].split(',')))))
from chop.cli import main
sys.exit(main(sys.argv[2:]))
"""


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        *([action, "--help"] for action in ACTIONS),
        ["train", "a", "b", "--show-config"],
    ],
)
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    result = run_python(IMPORTS_OF_A_COMMAND, ",".join(HEAVY), *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("HEAVY:\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "avoided"),
    [
        (["info", "formats"], "chop.passes,chop.runs,torch._dynamo,pandas,matplotlib,scipy,optuna"),
        (["test", "toy", "toy_tiny"], "torch._dynamo,pandas,scipy,optuna,lightning_fabric"),
        (
            ["transform", "toy", "toy_tiny", "--config", QUANTIZE],
            "torch._dynamo,pandas,matplotlib,scipy,optuna,lightning_fabric",
        ),
    ],
)
def test_commands_import_only_what_they_use(arguments: list[str], avoided: str, tmp_path: Path) -> None:
    project = [] if arguments[0] == "info" else ["--project-dir", str(tmp_path)]
    result = run_python(IMPORTS_OF_A_COMMAND, avoided, *arguments, *project)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("HEAVY:\n")


@pytest.mark.slow
def test_garbage_collection_pauses_while_torch_is_imported() -> None:
    code = (
        "import gc; from chop.cli import main; main(['info', 'formats']); print(gc.isenabled(), gc.get_stats()[2])"
    )
    found = run_python(code).stdout.splitlines()[-1]
    assert found.startswith("True {'collections': 0,"), found  # without the pause there are three


@pytest.mark.slow
def test_importing_chop_imports_only_the_finder_of_old_paths() -> None:
    code = "import sys, chop; print(*sorted(m for m in sys.modules if m.split('.')[0] in sys.argv[1]))"
    assert run_python(code, f"chop,{','.join(HEAVY)}").stdout == "chop chop.compat\n"


def test_public_names_of_the_package_are_imported_on_first_use() -> None:
    for name in chop.__all__:
        assert name in dir(chop)
        assert getattr(chop, name) is not None


def test_unknown_name_of_the_package_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'chop' has no attribute 'MaseGrph'$"):
        _ = chop.MaseGrph


@pytest.mark.slow
def test_package_runs_as_a_command() -> None:
    result = subprocess.run([sys.executable, "-m", "chop", "--version"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"ch {chop.__version__}\n")


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main([*arguments, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_lists_the_actions(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys)
    for line in ("train  ", "test  ", "transform  ", "report  ", "explain  ", "view  ", "info  "):
        assert f"    {line}" in text


def test_help_is_grouped_with_aliases_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "train")
    for line in ("--config PATH", "--load, --load-name PATH", "--cpu, --num-workers N", "--plugin, --plugins PATH"):
        assert f"  {line} " in text
    assert "learning rate (or a list: 1,2,3; default: 0.001)" in text
    assert "worker processes that load data; 0: use the main process (default: 0)" in text
    for group in ("training:", "general:", "data:", "machine:", "output:", "examples:"):
        assert f"\n{group}\n" in text


def test_help_lists_only_options_of_the_action(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "transform")
    assert "--max-epochs" not in text
    assert "or a list" not in text
    assert "--passes" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trasnform"], "unknown action 'trasnform'; did you mean 'transform'?"),
        (["transform", "a", "b", "c"], "unexpected argument 'c'"),
        (["transform", "--max-epochs", "8"], "'--max-epochs' is an option of ch train, not of ch transform"),
        (["transform", "a", "b", "--seed", "1,2"], "'seed' takes a single value: only ch train accepts a list"),
        (["train", "a", "b", "--seed", "1,x"], "command line: 'seed' must be int, got 'x' (str)"),
        (["train", "a", "b", "--seed", "1,"], "command line: 'seed' must be int, got '' (str)"),
        (["train", "a", "b", "--seed", "1,-2"], "train: 'seed' must be at least 0, got -2"),
        (
            ["train", "a", "b", "--data-option", "x"],
            "command line: a data option must have the form name=value, got 'x'",
        ),
        (["info", "foramts"], "unknown kind 'foramts'; did you mean 'formats'?"),
        (["info", "formats", "--plugni", "a"], "unknown option '--plugni'; did you mean '--plugin'?"),
        (["info", "formats", "integr"], "unknown format 'integr'; did you mean 'integer'?"),
        (["info", "ops", "liner"], "unknown op 'liner'; did you mean 'linear'?"),
        (["info", "passes", "quantise"], "unknown pass 'quantise'; did you mean 'quantize'?"),
        (["info", "models", "jsc-tyo"], "unknown model 'jsc-tyo'; did you mean 'jsc-toy'?"),
        (["info", "datasets", "jcs"], "unknown data set 'jcs'; did you mean 'jsc'?"),
        (["transform", "--btach-size", "8"], "unknown option '--btach-size'; did you mean '--batch-size'?"),
        (["transform", "--btach-size=8"], "unknown option '--btach-size'; did you mean '--batch-size'?"),
        (["transform", "--batch-size"], "argument --batch-size: expected one argument"),
        (["transform", "--batch-size", "x"], "command line: 'batch_size' must be int, got 'x' (str)"),
        (["transform", "--batch-size", "0", "a", "b"], "transform: 'batch_size' must be at least 1, got 0"),
        (["transform", "--cpu", "-1", "a", "b"], "transform: 'num_workers' must be at least 0, got -1"),
        (["train", "--learning-rate", "x"], "command line: 'learning_rate' must be float, got 'x' (str)"),
        (
            ["transform", "jsc-toy"],
            "ch transform needs a data set: ch transform MODEL DATASET, or --config FILE with 'dataset'; "
            "see ch info datasets",
        ),
        (
            ["transform"],
            "ch transform needs a model and a data set: ch transform MODEL DATASET, or --config FILE with 'model' "
            "and 'dataset'; see ch info models and ch info datasets",
        ),
        (["--nonsense"], "unknown option '--nonsense' before the action; known: --help, --version, -h"),
        (["report", "a", "b"], "unexpected argument 'b'"),
        (["report", "--seed", "1"], "'--seed' is an option of ch train, not of ch report"),
        (["report", "--smaples", "1"], "unknown option '--smaples'; did you mean '--samples'?"),
        (["report", "--show-config"], "'--show-config' is an option of ch train, not of ch report"),
        (["report", "--samples", "0"], "report: 'samples' must be at least 1, got 0"),
        (["view", "--port", "65536"], "view: 'port' must be at most 65535, got 65536"),
        (["view", "--port", "x"], "command line: 'port' must be int, got 'x' (str)"),
        (
            ["explain", "--project-dir", "nowhere"],
            "there is no finished run in 'nowhere'; use --project-dir to select another folder",
        ),
        (["transform", "--config", "no.toml"], "cannot read no.toml: No such file or directory"),
        (["transform", "--config", "."], "cannot read .: Is a directory"),
    ],
)
def test_errors_on_the_command_line_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert error_of(capsys, *arguments) == message


@pytest.mark.slow
def test_usage_lists_the_positional_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert help_of(capsys, "train").startswith("usage: ch train [MODEL DATASET] [--config FILE] [options]\n")
    assert help_of(capsys, "report").startswith("usage: ch report [RUN] [options]\n")
    assert help_of(capsys, "explain").startswith("usage: ch explain [RUN] [NODE] [options]\n")
    text = help_of(capsys, "view")
    assert text.startswith("usage: ch view [FOLDER] [options]\n")
    assert "folder with the runs (default: mase_output)" in text
    assert "--show-config" not in text
    assert help_of(capsys, "info").startswith("usage: ch info [KIND] [NAME] [options]\n")


def test_no_output_path_is_printed_for_an_action_without_results(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chop.actions.explain.explain", lambda config: None)
    assert cli.main(["explain", "a", "b"]) == 0
    assert capsys.readouterr().out == ""


def test_wrong_choice_lists_all_choices_and_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "transform", "--strategy", "dpp")
    assert message == (
        "command line: 'strategy' must be 'auto' or 'ddp' or 'fsdp', got 'dpp' (str); did you mean 'ddp'?"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = [\n", "not valid TOML: Invalid value (at end of document)"),
        ("model = 'a'\nseed = = 3\n", "not valid TOML: Invalid value (at line 2, column 8)"),
        ("batchsize = 3\n", "unknown key 'batchsize'; did you mean 'batch_size'?"),
        ("batch_size = 'x'\n", "'batch_size' must be int, got 'x' (str)"),
        ("passes = 3\n", "'passes' must be a dict, got 3 (int)"),
        ("seed = []\n", "'seed' is an empty list"),
        ("seed = [1, 'x']\n", "'seed' must be int, got 'x' (str)"),
        ("data = 3\n", "'data' must be Path or None, got 3 (int)"),
        ("data_path = 'a'\n[data]\npath = 'b'\n", "'data_path' is given twice, as 'data_path' and 'data'"),
        ("config = 'b.toml'\n", "'config' can only be given on the command line"),
        ("[pases.quantize]\n", "unknown key 'pases'; did you mean 'passes'?"),
        (
            "[transform]\nstyle = 'grph'\n",
            "transform: 'style' must be 'graph' or 'module', got 'grph' (str); did you mean 'graph'?",
        ),
    ],
)
def test_errors_in_a_config_file_name_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    file = write(tmp_path / "a.toml", text)
    assert error_of(capsys, "transform", "--config", file).startswith(f"{file}: {message}")


def test_config_file_that_is_not_text_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"\xff\xfe")
    assert f"{file}: not valid TOML: " in error_of(capsys, "transform", "--config", str(file))


def raising(error: BaseException) -> Any:
    def run_action(settings: Settings) -> Path:
        raise error

    return run_action


@pytest.mark.parametrize(
    "error", [ValueError("it\nbroke"), UnknownNameError("it broke"), FileNotFoundError("it broke")]
)
def test_user_error_in_an_action_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(cli, "run_action", raising(error))
    assert error_of(capsys, "transform", "a", "b") == "it broke"


def test_internal_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "run_action", raising(KeyError("it broke")))
    with pytest.raises(KeyError):
        cli.main(["transform", "a", "b"])


def test_ctrl_c_prints_the_message_of_the_action(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "run_action", raising(KeyboardInterrupt("resume with --resume")))
    assert cli.main(["train", "a", "b"]) == 130
    assert capsys.readouterr().err == "ch: interrupted: resume with --resume\n"


def test_ctrl_c_is_one_line_and_exit_code_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "run_action", raising(KeyboardInterrupt()))
    assert cli.main(["transform", "a", "b"]) == 130
    assert capsys.readouterr().err == "ch: interrupted\n"


@pytest.mark.parametrize(
    ("options", "level"),
    [({}, "INFO"), ({"log_level": "error"}, "ERROR"), ({"debug": True}, "DEBUG"), ({"no_warnings": True}, "ERROR")],
)
def test_log_level_follows_the_options(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], level: str
) -> None:
    monkeypatch.setattr("chop.actions.transform.transform", lambda config: Path("out"))
    settings = Settings("transform", {"model": "a", "dataset": "b", **options}, {})
    assert cli.run_action(settings) == Path("out")
    assert logging.getLevelName(logging.getLogger("chop").level) == level


def test_list_of_values_runs_a_grid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run_grid(configs: list[Any], varied: tuple[str, ...]) -> RunFolder:
        assert varied == ("batch_size", "seed")
        assert [(each.batch_size, each.seed) for each in configs] == [(4, 0), (4, 1), (8, 0), (8, 1)]
        return RunFolder(Path("out"))

    monkeypatch.setattr("chop.actions.train.run_grid", run_grid)
    assert cli.main(["train", "a", "b", "--batch-size", "4,8", "--seed", "0,1"]) == 0
    assert capsys.readouterr().out == "saved in out\n"


@pytest.mark.parametrize("how", [["--debug"], ["--log-level", "debug"], ["--log-level=debug"]])
def test_debug_level_prints_the_traceback(capsys: pytest.CaptureFixture[str], how: list[str]) -> None:
    assert cli.main(["train", "jsc-toy", *how]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("ch: error: ch train needs a data set: ch train MODEL ")


def test_debug_in_a_config_file_prints_the_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "debug = true\nmodel = 'no-such-model'\ndataset = 'jsc'\n")
    assert cli.main(["transform", "--config", file]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("ch: error: unknown model 'no-such-model'")


@pytest.mark.slow
def test_missing_package_error_names_the_extra_to_install() -> None:
    code = "import sys; sys.modules['optuna'] = None; from chop.cli import main; sys.exit(main(sys.argv[1:]))"
    result = run_python(code, "search", "jsc-tiny", "jsc")
    assert result.returncode == 2
    start = f"ch: error: this needs optuna, which is not installed: {sys.executable} -m pip install "
    assert result.stderr.startswith(start)
    assert re.fullmatch(r"'?optuna\S* pyarrow scipy", result.stderr.removeprefix(start).strip())


@pytest.mark.slow
def test_keys_of_a_file_that_a_command_does_not_use_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "max_epochs = 3\nnodes = 2\n[data]\nnum_rows = 100\n[passes.quantize]\n[search.strategy]\nname = 'ilp'\n"
    file = write(tmp_path / "a.toml", text)
    assert cli.main(["test", "toy", "toy_tiny", "--config", file, "--project-dir", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert "INFO: ch test does not use these keys of the file: max_epochs, nodes, passes, search\n" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("info formats >&-", 0, ""),
        ("info formats <&- >&- 2>&-", 0, ""),
        ("info formats >/dev/full", 2, "ch: error: [Errno 28] No space left on device\n"),
        ("info formats --log-level x 2>&-", 2, ""),
        ("info formats --log-level x 2>/dev/full", 2, ""),
    ],
)
def test_closed_and_full_streams_are_no_crash(words: str, code: int, message: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m chop {words}"
    result = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (code, message)


@pytest.mark.parametrize(("encoding", "change"), [("ascii", "set PYTHONUTF8=1"), ("utf-8", "rename it")])
def test_a_name_that_is_not_utf_8_says_what_to_change(
    encoding: str, change: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(settings: object) -> None:
        "path = '/home/b\udce9/net.pt'".encode()

    monkeypatch.setattr(cli, "run_action", write)
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: encoding)
    assert cli.main(["info", "formats"]) == 2
    assert capsys.readouterr().err == f"ch: error: 'b\\xe9' is not a name in UTF-8: {change}\n"
