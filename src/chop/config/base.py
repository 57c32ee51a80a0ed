"""What an option is, and the options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from chop.registry import Registry, closest
from chop.task_names import ALIASES, TASKS, check_task, guess_task

LATEST = "latest"
"""Stands for the newest run, where a run can be given."""


def option(
    default: object = MISSING,
    *,
    help: str,
    aliases: tuple[str, ...] = (),
    kind: Literal["option", "positional", "toml"] = "option",
    group: str = "general",
    least: float | None = None,
    most: float | None = None,
    choices: Collection[str] = (),
    grid: bool = False,
    same_on_resume: bool = False,
) -> Any:
    """Return a dataclass field that is one command-line option, one TOML key and one line of help.

    A `toml` option is not on the command line. `group` is the heading in the help, `least` and `most` are bounds.
    The help shows `choices`; if they are a registry, the value must be in it, and plug-ins may add to it.
    `ch train` accepts a list for a `grid` option. A run can only be resumed with the same value of a
    `same_on_resume` option, because the weights depend on it.
    """
    metadata: dict[str, Any] = {
        "help": help,
        "aliases": aliases,
        "kind": kind,
        "group": group,
        "least": least,
        "most": most,
    }
    metadata |= {"choices": choices, "grid": grid, "same_on_resume": same_on_resume}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


MAX_INTEGER = 2**63 - 1  # PyTorch has 64-bit integers
REPEATABLE = ("plugins", "trust")
"""Options with a path, which can be repeated."""
COMMAND_LINE_ONLY = ("config", "trust", "trust_remote_code")
"""Options that a TOML file cannot hold."""
PAIRS = ("data_options", "model_options", "cf_args")
"""Options given as NAME=VALUE, which can be repeated."""
TRAINING_ONLY = ("num_devices", "nodes", "strategy", "report_to", "log_every_n_steps")
"""Options that only trainings use; files of runs of all commands have them."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options with bounds; each is declared once, with `option`, for commands, functions and passes."""

    needs: ClassVar[Mapping[str, str]] = {}
    """The options that have no effect without another one, and what that is; "": they never have one."""

    def __post_init__(self) -> None:
        for each in fields(self):
            least, most, value = each.metadata.get("least"), each.metadata.get("most"), getattr(self, each.name)
            most = MAX_INTEGER if most is None and type(value) is int else most
            if least is not None and value is not None and value < least:
                raise ValueError(f"'{each.name}' must be at least {least}, got {value}")
            if most is not None and value is not None and value > most:
                raise ValueError(f"'{each.name}' must be at most {most}, got {value}")
            choices = each.metadata.get("choices")
            if isinstance(choices, Registry) and value not in choices:
                raise ValueError(f"unknown {choices.kind} '{value}'; {closest(value, choices)}")

    def without_effect(self) -> dict[str, str]:
        """Return the options that change nothing beside the others, each with the reason."""
        return {
            name: f"without '{needed}'" if needed else "on this command"
            for name, needed in self.needs.items()
            if not (needed and getattr(self, needed))
        }


@dataclass(frozen=True, kw_only=True)
class CommandConfig(Options):
    """Options of every command: plug-ins and logging."""

    examples: ClassVar[tuple[str, ...]] = ()
    """Command lines shown at the end of the help."""

    plugins: tuple[Path, ...] = option(
        (), aliases=("plugin",), help="Python file that registers models, data sets, formats or passes; repeatable"
    )
    trust: tuple[Path, ...] = option(
        (), help="Python file that the configuration or run may execute; remembered; repeatable"
    )

    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", group="output", help="lowest level to log; debug also shows the traceback of an error"
    )
    debug: bool = option(False, group="output", help="same as --log-level debug")
    no_warnings: bool = option(False, group="output", help="log errors only")


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """Options of commands that load a model: the model, its data, the device, and the output folder."""

    model: str = option(
        kind="positional",
        same_on_resume=True,
        help="name of a model (ch info models), path/to/net.py:Net, hf/ID, a folder of save_pretrained, "
        "a GGUF or ONNX file, or timm/NAME",
    )
    dataset: str = option(
        kind="positional", same_on_resume=True, help="name of a data set (ch info datasets), or a data file"
    )

    config: Path | None = option(None, help="TOML file with these options; the command line overrides it")
    task: str = option(
        "auto",
        choices=("auto", *sorted((*TASKS, *ALIASES))),
        help="task: classification, language modelling or similarity of sentences; auto: what the model is for",
    )
    pretrained: bool = option(False, help="download the weights of hf/ID or timm/NAME")
    trust_remote_code: bool = option(False, help="run Python files of the repository of hf/ID")
    load_name: Path | None = option(
        None,
        aliases=("load",),
        help="what to start from: a checkpoint, a saved graph, a run, or the newest run: latest, latest:train",
    )
    load_type: Literal["auto", "pt", "pl", "mz"] = option(
        "auto", help="type of --load: pt for a state_dict, pl for a training checkpoint, mz for a saved graph"
    )
    model_options: Mapping[str, Any] = option(
        {}, aliases=("model_option",), help="option of the model, for example hidden=[64,32]; repeatable"
    )
    cf_args: Mapping[str, Any] = option(
        {},
        aliases=("cf_arg",),
        same_on_resume=True,
        help="value of an argument of the model's forward that rows do not give, for example mode=fast; repeatable",
    )
    batch_size: int = option(
        None,
        least=1,
        grid=True,
        same_on_resume=True,
        help="samples per batch; by default 128, or 2 for the task lm and 16 for similarity",
    )
    seed: int = option(
        0, least=0, grid=True, same_on_resume=True, help="random seed of the initial weights and the data order"
    )

    data_path: Path | None = option(None, aliases=("data",), group="data", help="file or folder with the data")
    data_options: Mapping[str, Any] = option(
        {},
        aliases=("data_option",),
        group="data",
        same_on_resume=True,
        help="option of the data set, for example num_rows=1000; repeatable",
    )
    max_samples: int | None = option(
        None, least=1, group="data", help="evaluate on the first samples of the test split only"
    )
    num_workers: int = option(
        0,
        aliases=("cpu",),
        least=0,
        group="data",
        help="number of worker processes that load data; 0: use the main process",
    )

    accelerator: str = option(
        "auto", group="machine", help="device to run on: auto, cpu, gpu, mps, xpu or another one of torch"
    )
    compile: bool = option(
        False, group="machine", help="compile the rounding of quantised layers with torch.compile; same results"
    )
    num_devices: int = option(1, aliases=("gpu",), least=1, group="machine", help="number of devices per machine")
    nodes: int = option(1, least=1, group="machine", help="number of machines")
    strategy: Literal["auto", "ddp", "fsdp"] = option(
        "auto", group="machine", help="how to distribute the work over several devices"
    )
    trainer_precision: Literal[
        "32", "64", "bf16", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "32-true", "64-true"
    ] = option("32", group="machine", same_on_resume=True, help="floating-point precision of the computation")

    project_dir: Path = option(Path("mase_output"), group="output", help="folder in which run folders are created")
    name: str | None = option(None, group="output", help="name of the run folder; default: model, task, data, date")
    project: str | None = option(None, group="output", help="name of the project, saved with the run")
    report_to: Literal["tensorboard", "none", "wandb"] = option(
        "tensorboard", group="output", help="where to log training curves, in addition to metrics.jsonl"
    )
    log_every_n_steps: int = option(50, least=1, group="output", help="number of steps between log entries")


@dataclass(frozen=True, kw_only=True)
class ActionConfig(CommandConfig, WorkOptions):
    """Options of every action that loads a model; a TOML file may hold them."""

    supported_tasks: ClassVar[tuple[str, ...]] = ()
    """All tasks, if none is named."""
    needs: ClassVar[Mapping[str, str]] = {"load_type": "load_name"}

    @property
    def quantizes(self) -> bool:
        """Whether the command rounds a model to number formats, so that it starts from one in float."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        task = guess_task(self.model, self.dataset) if self.task == "auto" else check_task(self.task)
        if self.supported_tasks and task not in self.supported_tasks:
            raise ValueError(
                f"the task '{task}' is not supported by this command, only {' and '.join(self.supported_tasks)}; "
                "use ch test or ch transform"
            )
        object.__setattr__(self, "task", task)
        if self.batch_size is None:
            object.__setattr__(self, "batch_size", TASKS[task].batch_size)
        if self.name is not None and not re.fullmatch(r"\w[\w.+-]*", self.name):
            raise ValueError(f"'name' must consist of letters, digits, '.', '-', '+' and '_', got '{self.name}'")
        if self.name is not None and self.name.partition(":")[0] == LATEST:
            raise ValueError(f"'name' must not be '{LATEST}', which stands for the newest run")


@dataclass(frozen=True, kw_only=True)
class FormatsConfig(ActionConfig):
    """Options of commands that compare number formats of a model."""

    supported_tasks: ClassVar[tuple[str, ...]] = ("cls", "lm")

    @property
    def quantizes(self) -> bool:
        """Whether the command rounds a model to number formats, so that it starts from one in float."""
        return True


def common_options(config: ActionConfig) -> dict[str, Any]:
    """Return the options that all actions on a model have, by name."""
    return {each.name: getattr(config, each.name) for each in fields(ActionConfig)}


@dataclass(frozen=True, kw_only=True)
class PageOptions(Options):
    """The option of commands whose result is a page."""

    open: bool = option(False, help="open the page in a browser")


@dataclass(frozen=True, kw_only=True)
class ProjectOptions(CommandConfig):
    """The option of commands that read or write runs."""

    project_dir: Path = option(Path("mase_output"), help="folder with the runs")


@dataclass(frozen=True, kw_only=True)
class RunConfig(ProjectOptions):
    """Options of every command that opens an existing run."""

    run: Path | None = option(
        None, kind="positional", help="run folder, its name in --project-dir, latest (default), latest:train, ..."
    )
    accelerator: str | None = option(
        None, help="device to run on: cpu, gpu, mps, xpu, ...; default: that of the run"
    )
