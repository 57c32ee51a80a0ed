"""The command that a user probably wants after the one that has just finished."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from chop.config import (
    ActionConfig,
    CheckedCircuitOptions,
    CommandConfig,
    DemoConfig,
    EmitConfig,
    SearchConfig,
    SimulateConfig,
    SweepConfig,
    TestConfig,
    TrainConfig,
    TrainGrid,
    TransformConfig,
)
from chop.config.transform import TransformTable
from chop.display.launcher import launcher
from chop.toml import to_toml_value, write_toml


def next_command(config: CommandConfig | TrainGrid, path: Path) -> str | None:
    """Return the command to type after a command with these options has written its results to `path`."""
    words = _words(config, path)
    return None if words is None else f"{launcher()} {shlex.join(words)}"


def _words(config: CommandConfig | TrainGrid, path: Path) -> list[str] | None:
    # Imported here, because it imports torch, which --help does not need.
    from chop.runs import RunFolder

    run = next((RunFolder(each) for each in (path, *path.parents) if RunFolder(each).is_run), RunFolder(path))
    match config:
        case TrainGrid():
            return ["view", str(path.parent), "--open"]
        case DemoConfig():
            return ["report", str(run), "--open"] if not config.open else ["explain", str(run)]
        case TestConfig():
            return ["view", str(path.parent), "--open"]
        case TrainConfig() if run.keeps_quantized:
            return ["report", str(run), "--open"]
        case TrainConfig():
            return ["sweep", *_inputs(config), "--load", str(run)]
        case SweepConfig() if run.sweep_config.is_file():
            return ["transform", "--config", str(run.sweep_config), "--report"]
        case SearchConfig(apply=None, finetune=0) if run.best_config.is_file():
            best = (run.read_summary().get("best") or {}) if run.is_finished else {}
            if "epochs" in best:  # its weights were trained, which ch transform does not do
                return ["search", "--config", str(run.config), "--apply", str(best["trial"])]
            return ["transform", "--config", str(run.best_config), "--report"]
        case TransformConfig() if config.report or config.open:
            return ["train", *_inputs(config), "--load", str(run), "--max-epochs", "2"]
        case TransformConfig(transform=TransformTable(style="module")):  # without a graph there is no report
            return ["view", str(run.path.parent), "--open"]
        case EmitConfig():
            words = ["simulate", str(run)]
            for field in fields(CheckedCircuitOptions):  # which decide which circuit is made
                if (value := getattr(config, field.name)) != field.default:
                    flag = f"--{field.name.replace('_', '-')}"
                    words += [flag] if value is True else [flag, str(value)]
            return words
        case TransformConfig() | SearchConfig() | SimulateConfig():
            return ["report", str(run), "--open"]
    return None


def _inputs(config: ActionConfig) -> list[str]:
    """Return the model and the data of a command as words of the command line, with all that they depend on."""
    words = [config.model, config.dataset]
    if config.data_path is not None:
        words += ["--data", str(config.data_path)]
    words += _pairs("--data-option", config.data_options) + _pairs("--model-option", config.model_options)
    words += _pairs("--cf-arg", config.cf_args)
    for plugin in config.plugins:
        words += ["--plugin", str(plugin)]
    if config.project_dir != ActionConfig.project_dir:
        words += ["--project-dir", str(config.project_dir)]
    return words


def _pairs(flag: str, options: Mapping[str, object]) -> list[str]:
    """Return options such as `hidden=[64, 32]` in the TOML in which the command line reads them."""
    lines = [write_toml({name: to_toml_value(value)}).strip() for name, value in options.items()]
    return [word for line in lines for word in (flag, line.replace(" = ", "=", 1))]
