"""The options of the short commands, and every command with the class of its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chop.config.base import (
    TRAINING_ONLY,
    ActionConfig,
    CommandConfig,
    PageOptions,
    ProjectOptions,
    RunConfig,
    option,
)
from chop.config.export import ExportConfig
from chop.config.hardware import EmitConfig, SimulateConfig
from chop.config.search import SearchConfig
from chop.config.sweep import SweepConfig
from chop.config.train import TrainConfig
from chop.config.transform import TransformConfig
from chop.registry import UnknownNameError, closest

INFO_KINDS = ("models", "datasets", "formats", "presets", "passes", "ops")
"""The kinds of things that `ch info` lists; a module of `chop.info` has the table and the page of each."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig(PageOptions, ProjectOptions):
    """Train a small network, compare number formats, quantise it and write a report, in under a minute."""

    examples: ClassVar[tuple[str, ...]] = ("ch demo", "ch demo --open")


@dataclass(frozen=True, kw_only=True)
class TestConfig(ActionConfig):
    """Evaluate a model on the test split of a data set."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch test jsc-tiny jsc --load mase_output/jsc-tiny_classification_jsc_2026-01-31",
    )
    needs: ClassVar[Mapping[str, str]] = {**ActionConfig.needs, **dict.fromkeys(TRAINING_ONLY, "")}
    __test__ = False  # not a test case, although pytest would take its name for one


@dataclass(frozen=True, kw_only=True)
class ReportConfig(PageOptions, RunConfig):
    """Write a report on a run, or on a grid of runs, as a single HTML page."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch report",
        "ch report jsc-toy_classification_jsc_2026-01-31 --open",
    )

    output: Path | None = option(None, help="file or folder to write to; default: report.html in the run folder")
    samples: int = option(256, least=1, help="number of test samples to measure on")
    no_sensitivity: bool = option(False, help="skip the sensitivity analysis, the slowest part")


@dataclass(frozen=True, kw_only=True)
class ExplainConfig(RunConfig):
    """Explain one node of a run: its values, formats, cost, and formats to try."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch explain latest",
        "ch explain seq_blocks_2                 a node of the newest run",
        "ch explain latest:transform seq_blocks_2",
        "ch explain mase_output/jsc-toy_classification_jsc_2026-01-31 seq_blocks_2",
    )

    node: str | None = option(None, kind="positional", help="name of the node; default: list all nodes")
    samples: int = option(256, least=1, help="number of test samples to measure on")
    sqnr: float = option(
        30.0, least=0, help="minimum signal-to-quantisation-noise ratio of suggested formats, in dB"
    )


@dataclass(frozen=True, kw_only=True)
class ViewConfig(PageOptions, CommandConfig):
    """Show and compare the runs of a project in a browser."""

    examples: ClassVar[tuple[str, ...]] = ("ch view --open",)

    folder: Path = option(Path("mase_output"), kind="positional", help="folder with the runs")
    port: int = option(8080, least=0, most=65535, help="port to listen on; 0: any free port")
    host: str = option("127.0.0.1", help="address to listen on; 0.0.0.0 gives other machines access")


@dataclass(frozen=True, kw_only=True)
class InfoConfig(CommandConfig):
    """List all models, data sets, formats, presets of formats, passes or ops, or describe one of them."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch info",
        "ch info formats",
        "ch info formats integer --png integer.png",
        "ch info models --plugin my_networks.py",
    )

    kind: str | None = option(None, kind="positional", help=f"{', '.join(INFO_KINDS)}; default: list these")
    name: str | None = option(None, kind="positional", help="name of the entry to describe; default: list all")
    png: Path | None = option(None, help="plot the values of a format to this file")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind is not None and self.kind not in INFO_KINDS:
            raise UnknownNameError(f"unknown kind '{self.kind}'; {closest(self.kind, INFO_KINDS)}")
        if self.png is not None and (self.kind != "formats" or self.name is None):
            raise ValueError("--png plots the values of one format: ch info formats NAME --png PATH")


@dataclass(frozen=True, kw_only=True)
class AnyConfig(TrainConfig, TestConfig, TransformConfig, SearchConfig, SweepConfig):
    """Every option that a TOML file may hold, so that one file serves all actions on a model."""


ACTIONS: Mapping[str, type[CommandConfig]] = {
    "demo": DemoConfig,
    "train": TrainConfig,
    "test": TestConfig,
    "transform": TransformConfig,
    "sweep": SweepConfig,
    "search": SearchConfig,
    "emit": EmitConfig,
    "simulate": SimulateConfig,
    "export": ExportConfig,
    "report": ReportConfig,
    "explain": ExplainConfig,
    "view": ViewConfig,
    "info": InfoConfig,
}

_ENGINES = {
    "test": "chop.training.testing:run_test",
    "search": "chop.searching.search:search",
    "sweep": "chop.sweeping.sweep:sweep",
    "report": "chop.reporting.run_report:report",
    "view": "chop.reporting.view.server:view",
}


def engine_of(action: str) -> tuple[str, str]:
    """Return module and name of the function that runs `ch ACTION`: in `chop.actions`, or the engine itself."""
    module, _, name = _ENGINES.get(action, f"chop.actions.{action}:{action}").partition(":")
    return module, name
