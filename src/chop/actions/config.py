"""The options of each action: one field is one option, one TOML key and one line of help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, Literal


def option(default: object = MISSING, *, help: str, aliases: tuple[str, ...] = (), kind: str = "option") -> Any:
    """A field with a line of help; `kind` is option, positional, or toml (no place on the command line)."""
    metadata = {"help": help, "aliases": aliases, "kind": kind}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class TransformTable:
    """The `[transform]` table of a TOML file."""

    style: Literal["graph"] = "graph"


@dataclass(frozen=True, kw_only=True)
class TransformConfig:
    """Run the passes of a TOML file over a model, and save the graph that comes out."""

    model: str = option(kind="positional", help="name of the model, such as jsc-toy")
    dataset: str = option(kind="positional", help="name of the data set, such as jsc")
    config: Path | None = option(None, help="TOML file with these options and the passes to run")
    task: Literal["cls", "classification"] = option("cls", help="what the model is for")
    load_name: Path | None = option(None, aliases=("load",), help="checkpoint to start from")
    load_type: Literal["auto", "pt", "pl", "mz"] = option("auto", help="kind of that checkpoint")
    batch_size: int = option(128, help="samples in a batch")
    num_workers: int = option(0, aliases=("cpu",), help="processes that load data besides the main one")
    accelerator: Literal["auto", "cpu", "gpu"] = option("auto", help="device to run on")
    seed: int = option(0, help="seed of fresh weights and of the order of the data")
    project_dir: Path = option(Path("mase_output"), help="folder that each run adds a folder to")
    project: str | None = option(None, help="name of the project that the run belongs to")
    log_level: Literal["debug", "info", "warning", "error"] = option("info", help="least level to log")
    max_epochs: int = option(20, help="epochs to train for; transform does not train")
    learning_rate: float = option(1e-3, help="step size to train with; transform does not train")
    log_every_n_steps: int = option(50, help="steps between two log lines; transform does not train")
    passes: Mapping[str, Mapping[str, Any]] = option({}, kind="toml", help="[passes.NAME], run in order")
    transform: TransformTable = option(TransformTable(), kind="toml", help="the [transform] table")

    def __post_init__(self) -> None:
        for name, least in {"batch_size": 1, "num_workers": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"'{name}' must be at least {least}, got {getattr(self, name)}")
        object.__setattr__(self, "task", {"classification": "cls"}.get(self.task, self.task))
