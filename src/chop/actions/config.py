"""The options of each action: one field is one option, one TOML key and one line of help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from chop.actions.search_config import SearchTable


def option(
    default: object = MISSING,
    *,
    help: str,
    aliases: tuple[str, ...] = (),
    kind: Literal["option", "positional", "toml"] = "option",
    group: str = "this run",
    least: float | None = None,
    most: float | None = None,
    grid: bool = False,
) -> Any:
    """A field with a line of help; of kind `toml` it has no place on the command line.

    `group` is its heading in the help, `least` its smallest value and `most` its largest; of a `grid` option
    `ch train` takes a list.
    """
    metadata = {"help": help, "aliases": aliases, "kind": kind, "group": group, "least": least, "most": most}
    metadata["grid"] = grid
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class TransformTable:
    """The `[transform]` table of a TOML file."""

    style: Literal["graph", "module"] = "graph"  # module: layers only, for models that cannot be traced
    evaluate: bool = True  # test the model before and after


@dataclass(frozen=True, kw_only=True)
class CommandConfig:
    """What every command knows: the user's own files, and how much it tells."""

    plugins: tuple[Path, ...] = option(
        (), aliases=("plugin",), help="Python file that registers models, data sets, formats or passes; repeatable"
    )

    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", group="output", help="least level to log; debug shows the traceback of an error"
    )
    debug: bool = option(False, group="output", help="the same as --log-level debug")
    no_warnings: bool = option(False, group="output", help="log errors only")

    def __post_init__(self) -> None:
        for each in fields(self):
            least, most, value = each.metadata["least"], each.metadata["most"], getattr(self, each.name)
            if least is not None and value is not None and value < least:
                raise ValueError(f"'{each.name}' must be at least {least}, got {value}")
            if most is not None and value is not None and value > most:
                raise ValueError(f"'{each.name}' must be at most {most}, got {value}")


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """What it takes to work with a model: the model, its data, where to run, and where to write."""

    model: str = option(kind="positional", help="name of a model (ch info models), or path/to/net.py:Net")
    dataset: str = option(kind="positional", help="name of a data set (ch info datasets), or a file of rows")

    config: Path | None = option(None, help="TOML file with these options; the command line goes first")
    task: Literal["cls", "classification"] = option("cls", help="what the model is for")
    load_name: Path | None = option(
        None, aliases=("load",), help="checkpoint, folder of a graph, or folder of a run, to start from"
    )
    model_options: Mapping[str, Any] = option(
        {}, aliases=("model_option",), help="setting of the model, as hidden=[64,32]; repeatable"
    )
    load_type: Literal["auto", "pt", "pl", "mz", "hf"] = option("auto", help="kind of that checkpoint")
    batch_size: int = option(128, least=1, grid=True, help="samples in a batch")
    seed: int = option(0, least=0, grid=True, help="seed of fresh weights and of the order of the data")

    data_path: Path | None = option(None, aliases=("data",), group="data", help="file or folder of the data set")
    data_options: Mapping[str, Any] = option(
        {}, aliases=("data_option",), group="data", help="setting of the data set, as num_rows=1000; repeatable"
    )
    num_workers: int = option(
        0, aliases=("cpu",), least=0, group="data", help="processes that load data besides the main one"
    )

    accelerator: Literal["auto", "cpu", "gpu", "mps"] = option("auto", group="machine", help="device to run on")
    num_devices: int = option(1, aliases=("gpu",), least=1, group="machine", help="devices on each machine")
    nodes: int = option(1, least=1, group="machine", help="machines")
    strategy: Literal["auto", "ddp", "fsdp"] = option("auto", group="machine", help="how several devices share")
    trainer_precision: Literal[
        "32", "64", "bf16", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "32-true", "64-true"
    ] = option("32", group="machine", help="numbers that the machine computes with")

    project_dir: Path = option(Path("mase_output"), group="output", help="folder that each run adds a folder to")
    project: str | None = option(None, group="output", help="name of the project that the run belongs to")
    report_to: Literal["tensorboard", "none", "wandb"] = option(
        "tensorboard", group="output", help="where the curves go besides metrics.jsonl"
    )
    log_every_n_steps: int = option(50, least=1, group="output", help="steps between two entries of the log")


@dataclass(frozen=True, kw_only=True)
class ActionConfig(CommandConfig, WorkOptions):
    """What every action knows that works with a model, and that a TOML file may hold."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "task", {"classification": "cls"}.get(self.task, self.task))


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ActionConfig):
    """Train a model on a data set, and test the best of it."""

    max_epochs: int = option(20, least=1, grid=True, group="training", help="times through the training data")
    max_steps: int = option(-1, least=-1, grid=True, group="training", help="stop after so many steps; -1: never")
    learning_rate: float = option(1e-3, least=0, grid=True, group="training", help="size of a step")
    weight_decay: float = option(0.0, least=0, grid=True, group="training", help="pull of the weights to zero")
    training_optimizer: Literal["adam", "sgd", "adamw"] = option("adam", group="training", help="rule of a step")
    lr_scheduler: Literal["none", "cosine", "linear", "step"] = option(
        "none", group="training", help="how the learning rate falls"
    )
    accumulate_grad_batches: int = option(
        1, least=1, grid=True, group="training", help="batches whose gradients make one step"
    )
    resume: bool = option(False, group="training", help="go on with a run that was stopped")


@dataclass(frozen=True, kw_only=True)
class TestConfig(ActionConfig):
    """Measure a model on the test part of a data set."""

    __test__ = False  # no test case, whatever pytest makes of its name


@dataclass(frozen=True, kw_only=True)
class TransformConfig(ActionConfig):
    """Run the passes of a TOML file over a model, and save the graph that comes out."""

    passes: Mapping[str, Mapping[str, Any]] = option({}, kind="toml", help="[passes.NAME], run in order")
    transform: TransformTable = option(TransformTable(), kind="toml", help="the [transform] table")
    report: bool = option(False, group="output", help="write a page about the run at its end, as ch report does")
    open: bool = option(False, group="output", help="the same, and open the page in a browser")


@dataclass(frozen=True, kw_only=True)
class SearchConfig(ActionConfig):
    """Find the number formats for each layer that nothing else beats."""

    search: SearchTable = option(SearchTable(), kind="toml", help="the [search] table")
    n_trials: int | None = option(
        None, least=1, group="search", help="configurations to try, beside the uniform ones"
    )
    timeout: float | None = option(None, least=0, group="search", help="seconds after which no new one is begun")
    workers: int | None = option(None, least=1, group="search", help="processes on this machine")
    storage: str | None = option(
        None, group="search", help="database of the study, as postgresql://user@host/name; left out: a file"
    )
    study: str | None = option(
        None, group="search", help="name of the study; machines with the same share the work"
    )
    resume: bool = option(False, group="search", help="go on with a run that was stopped")
    max_drop: float | None = option(
        None, least=0, group="search", help="choose the cheapest that loses at most so many points of accuracy"
    )
    apply: int | None = option(None, group="search", help="write the graph of this trial, and try no others")
    finetune: int = option(0, least=0, group="search", help="epochs to train the chosen configuration for")


@dataclass(frozen=True, kw_only=True)
class AnyConfig(TrainConfig, TestConfig, TransformConfig, SearchConfig):
    """Every option of every action on a model: what a TOML file may hold, so that one file serves them all."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(CommandConfig):
    """What every command knows that looks at a run."""

    run: Path | None = option(
        None,
        kind="positional",
        help="folder of a run, or its name in --project-dir; left out: the newest run there",
    )
    project_dir: Path = option(Path("mase_output"), help="folder that holds the runs")


@dataclass(frozen=True, kw_only=True)
class ReportConfig(RunConfig):
    """Write all that is known of a run into one page that opens in a browser."""

    output: Path | None = option(None, help="file to write, in place of report.html in the folder of the run")
    samples: int = option(256, least=1, help="test rows to measure on")
    no_sensitivity: bool = option(False, help="leave out how much each layer alone hurts, which takes longest")
    open: bool = option(False, help="open the page in a browser")


@dataclass(frozen=True, kw_only=True)
class ExplainConfig(RunConfig):
    """Tell all about one node of a run: ranges against its formats, formats that would do, and cost."""

    node: str | None = option(None, kind="positional", help="name of the node; left out: the names of all nodes")
    samples: int = option(256, least=1, help="test rows to measure on")
    sqnr: float = option(30.0, least=0, help="least signal to quantisation noise of a suggested format, in dB")


@dataclass(frozen=True, kw_only=True)
class ViewConfig(CommandConfig):
    """Show the runs of a project in a browser, one beside the other."""

    folder: Path = option(Path("mase_output"), kind="positional", help="folder that holds the runs")
    port: int = option(8080, least=0, most=65535, help="port to listen at; 0: any that is free")
    host: str = option("127.0.0.1", help="address to listen at; others than this one are open to the network")
    open: bool = option(False, help="open the page in a browser")


PAIRS = ("data_options", "model_options")
"""Options that are written as NAME=VALUE, any number of times."""
# Each name is also that of the module in chop.actions and of the function in it, imported when it is run.
ACTIONS: Mapping[str, type[CommandConfig]] = {
    "train": TrainConfig,
    "test": TestConfig,
    "transform": TransformConfig,
    "search": SearchConfig,
    "report": ReportConfig,
    "explain": ExplainConfig,
    "view": ViewConfig,
}
