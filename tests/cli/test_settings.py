"""Options from defaults, a TOML file and the command line: precedence, and lists of values."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from chop.cli.parser import parse
from chop.config import (
    ActionConfig,
    CommandConfig,
    ExplainConfig,
    ReportConfig,
    TestConfig,
    TrainConfig,
    TransformConfig,
    ViewConfig,
)
from chop.config.settings import Settings, read_settings
from chop.config.train import OPTIMIZERS, SCHEDULES
from chop.task_names import TASKS


def settings(*words: str) -> Settings:
    request = parse(words)
    return read_settings(request.action, request.given, request.replaced)


def command(*words: str) -> CommandConfig:
    (only,) = settings(*words).configs()
    return only


def config(*words: str) -> ActionConfig:
    read = command(*words)
    assert isinstance(read, ActionConfig)
    return read


def train(*words: str) -> TrainConfig:
    read = config("train", *words)
    assert isinstance(read, TrainConfig)
    return read


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_command_line_overrides_file_and_file_overrides_defaults(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", 'model = "jsc-toy"\ndataset = "jsc"\nbatch_size = 4\nseed = 5\n')
    read = train("--config", file, "--batch-size", "16", "jsc-tiny")
    assert (read.model, read.dataset) == ("jsc-tiny", "jsc")
    assert (read.batch_size, read.seed, read.learning_rate) == (16, 5, 1e-3)


def test_options_have_aliases() -> None:
    read = train("a", "b", "--task=classification", "--load=a.ckpt", "--load-type=pl", "--cpu=3", "--gpu=2")
    assert (read.task, read.num_workers, read.num_devices) == ("cls", 3, 2)
    assert (read.load_name, read.load_type) == (Path("a.ckpt"), "pl")


def test_commands_of_the_course_notes_are_accepted() -> None:
    read = train("jsc-tiny", "jsc", "--max-epochs", "10", "--batch-size", "256", "--learning-rate", "0.0001")
    assert (read.max_epochs, read.batch_size, read.learning_rate) == (10, 256, 1e-4)
    test = config("test", "jsc-tiny", "jsc", "--load", "../mase_output/x/best.ckpt")
    assert isinstance(test, TestConfig)
    assert test.load_name == Path("../mase_output/x/best.ckpt")
    example = "configs/examples/jsc_toy_by_type.toml"
    transform = config("transform", "--config", example, "--task", "cls", "--cpu=0")
    assert isinstance(transform, TransformConfig)
    assert (transform.model, list(transform.passes)) == ("jsc-toy", ["quantize"])


def test_all_options_of_the_course_notes_are_accepted() -> None:
    names = (
        "config task load load-type batch-size max-epochs max-steps learning-rate weight-decay training-optimizer "
        "lr-scheduler trainer-precision accumulate-grad-batches seed cpu num-workers gpu num-devices nodes "
        "accelerator strategy project-dir project log-level report-to log-every-n-steps"
    )
    values = {"task": "cls", "load-type": "pl", "training-optimizer": "sgd", "lr-scheduler": "cosine"}
    values |= {"trainer-precision": "bf16-mixed", "accelerator": "mps", "strategy": "ddp", "log-level": "error"}
    values |= {"report-to": "none", "config": "", "num-devices": "", "num-workers": ""}
    words = [f"--{name}={values.get(name, '3')}" for name in names.split() if values.get(name) != ""]
    read = train("a", "b", *words, "--debug", "--no-warnings")
    assert (read.max_steps, read.accumulate_grad_batches, read.nodes, read.project) == (3, 3, 3, "3")
    assert (read.debug, read.no_warnings, read.resume) == (True, True, False)


def test_passes_keep_the_order_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "[passes.z]\n[passes.a]\nx = 1\n[passes.m]\n")
    read = config("transform", "jsc-toy", "jsc", "--config", file)
    assert isinstance(read, TransformConfig)
    assert list(read.passes) == ["z", "a", "m"]
    assert read.passes["a"] == {"x": 1}


@pytest.mark.parametrize("action", ["train", "test", "transform"])
def test_one_file_serves_all_actions(tmp_path: Path, action: str) -> None:
    text = "model = 'a'\ndataset = 'b'\nmax_epochs = 3\n[passes.quantize]\nby = 'type'\n[transform]\n"
    assert config(action, "--config", write(tmp_path / "a.toml", text)).model == "a"


def test_lists_give_one_configuration_per_combination() -> None:
    read = settings("train", "a", "b", "--batch-size", "64,128", "--learning-rate", "0.1, 1e-2", "--seed", "7")
    assert read.varied == ("batch_size", "learning_rate")
    pairs = [
        (each.batch_size, each.learning_rate, each.seed) for each in read.configs() if isinstance(each, TrainConfig)
    ]
    assert pairs == [(64, 0.1, 7), (64, 0.01, 7), (128, 0.1, 7), (128, 0.01, 7)]


def test_config_file_accepts_lists(tmp_path: Path) -> None:
    read = settings("train", "a", "b", "--config", write(tmp_path / "a.toml", "seed = [0, 1, 2]\n"))
    assert [each.seed for each in read.configs() if isinstance(each, TrainConfig)] == [0, 1, 2]


@pytest.mark.parametrize("text", ["data = 'x.csv'\n", "data_path = 'x.csv'\n", "[data]\npath = 'x.csv'\n"])
def test_data_path_is_accepted_in_three_forms(tmp_path: Path, text: str) -> None:
    assert train("a", "b", "--config", write(tmp_path / "a.toml", text)).data_path == Path("x.csv")


def test_data_options_of_file_and_command_line_are_combined(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "[data]\npath = 'x.csv'\nlabel = 'kind'\nnum_rows = 3\n")
    read = train("a", "b", "--config", file, "--data-option", "num_rows=5", "--data-option", "name=jets")
    assert read.data_options == {"label": "kind", "num_rows": 5, "name": "jets"}


def test_plug_ins_of_file_and_command_line_are_combined(tmp_path: Path) -> None:
    write(tmp_path / "near.py", "")
    file = write(tmp_path / "a.toml", "plugins = ['near.py', 'far.py']\n")
    read = train("a", "b", "--config", file, "--plugin", "x.py", "--plugin", "y.py")
    assert read.plugins == (tmp_path / "near.py", Path("far.py"), Path("x.py"), Path("y.py"))


def test_show_config_names_the_origin_of_each_value(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "model = 'a'\nbatch_size = 4\n[passes.quantize]\nby = 'type'\n")
    text = settings("transform", "--config", file, "--batch-size", "8").show()
    shown = {
        line.split(" = ")[0]: line.split("#")[1].strip()
        for line in text.splitlines()
        if " = " in line and "#" in line
    }
    assert (shown["model"], shown["batch_size"], shown["seed"]) == (file, "command line", "default")
    assert f"\n# {file}\n[passes.quantize]\n" in text
    assert "dataset" not in shown


def test_show_config_reads_back_to_the_same_options(tmp_path: Path) -> None:
    words = ["train", "a", "b", "--seed", "1,2", "--data", "x.csv", "--data-option", "label=k", "--plugin", "p.py"]
    first = settings(*words)
    file = write(tmp_path / "a.toml", first.show())
    again = settings("train", "--config", file)
    assert tomllib.loads(again.show()) == tomllib.loads(first.show())
    assert again.varied == ("seed",)


def test_run_argument_is_optional() -> None:
    assert command("report") == ReportConfig()
    read = command("report", "out/x", "--open", "--samples", "9", "--output=a.html", "--plugin", "p.py", "--debug")
    assert read == ReportConfig(
        run=Path("out/x"), open=True, samples=9, output=Path("a.html"), plugins=(Path("p.py"),), debug=True
    )
    assert command("report", "--project-dir", "elsewhere") == ReportConfig(project_dir=Path("elsewhere"))


def test_run_and_node_are_positional() -> None:
    assert command("explain", "out/x", "fc1") == ExplainConfig(run=Path("out/x"), node="fc1")
    assert command("explain", "out/x", "--sqnr", "20") == ExplainConfig(run=Path("out/x"), sqnr=20.0)


def test_view_listens_on_this_machine_by_default() -> None:
    assert command("view") == ViewConfig(folder=Path("mase_output"), host="127.0.0.1")
    assert command("view", "out", "--port", "0", "--host", "0.0.0.0", "--open") == ViewConfig(
        folder=Path("out"), port=0, host="0.0.0.0", open=True
    )


def test_set_replaces_a_key_of_the_file(tmp_path: Path) -> None:
    text = 'model = "toy"\ndataset = "jsc"\nseed = 1\n[passes.quantize]\nby = "type"\n'
    file = write(
        tmp_path / "a.toml", text + '[passes.quantize.linear.config]\nname = "integer"\nweight_width = 8\n'
    )
    key = "passes.quantize.linear.config.weight_width"
    read = settings(
        "transform", "--config", file, "--set", f"{key}=4", "--set", "seed=2", "--set", "transform.style=module"
    )
    (only,) = read.configs()
    assert isinstance(only, TransformConfig)
    assert only.passes["quantize"] == {"by": "type", "linear": {"config": {"name": "integer", "weight_width": 4}}}
    assert (only.seed, only.transform.style) == (2, "module")
    assert read.origins["passes"] == f"{file} and --set"


def test_set_works_without_a_file() -> None:
    read = config("transform", "toy", "jsc", "--set", "passes.quantize.by=type")
    assert isinstance(read, TransformConfig)
    assert read.passes == {"quantize": {"by": "type"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed", "command line: --set must have the form name=value, got 'seed'"),
        ("sede=1", "command line: unknown key 'sede'; did you mean 'seed'?"),
        ("transform.stile=1", "command line: transform: unknown key 'stile'; did you mean 'style'?"),
        ("seed.x.y=1", "command line: 'seed' must be int, got {'x': {'y': 1}} (dict)"),
    ],
)
def test_wrong_keys_of_set_are_reported(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="command line: ") as caught:
        settings("transform", "toy", "jsc", "--set", text)
    assert str(caught.value) == message


def test_set_does_not_replace_a_value_by_a_table(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", 'model = "toy"\ndataset = "jsc"\n')
    with pytest.raises(ValueError, match=r"command line: --set model.x: 'model' is a value, not a table"):
        settings("transform", "--config", file, "--set", "model.x=1")


@pytest.mark.parametrize("name", ["a/b", "", ".hidden", "latest"])
def test_wrong_names_of_runs_are_reported(name: str) -> None:
    with pytest.raises(ValueError, match="'name' must "):
        train("toy", "jsc", "--name", name)


def test_names_of_plug_ins_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPTIMIZERS, "_entries", {**OPTIMIZERS})
    monkeypatch.setattr(SCHEDULES, "_entries", {**SCHEDULES})
    monkeypatch.setattr(TASKS, "_entries", {**TASKS})
    plugin = write(
        tmp_path / "names.py",
        """
from chop.config.train import OPTIMIZERS, SCHEDULES
from chop.task_names import TASKS, TaskName
OPTIMIZERS.add("nadam", ("NAdam", {}))
SCHEDULES.add("half", lambda done: 0.5)
TASKS.add("ner", TaskName("entities", 8))
""",
    )
    options = {"model": "toy", "dataset": "toy_tiny", "plugins": (Path(plugin),)}
    names = {"training_optimizer": "nadam", "lr_scheduler": "half"}
    with pytest.raises(ValueError, match=r"^train: unknown optimizer 'nadam'; did you mean 'adam'\?$"):
        read_settings("train", {**options, **names}).config()
    read = read_settings("train", {**options, **names})
    read.prepare()
    assert isinstance(trained := read.config(), TrainConfig)
    assert (trained.training_optimizer, trained.lr_scheduler) == ("nadam", "half")
    tested = read_settings("test", {**options, "task": "ner"}).config()
    assert isinstance(tested, ActionConfig)
    assert (tested.task, tested.batch_size) == ("ner", 8)
