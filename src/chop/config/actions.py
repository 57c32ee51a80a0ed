"""Every command with the class of its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chop.config.base import CommandConfig
from chop.config.demo import DemoConfig
from chop.config.emit import EmitConfig
from chop.config.explain import ExplainConfig
from chop.config.export import ExportConfig
from chop.config.info import InfoConfig
from chop.config.report import ReportConfig
from chop.config.search import SearchConfig
from chop.config.simulate import SimulateConfig
from chop.config.sweep import SweepConfig
from chop.config.test import TestConfig
from chop.config.train import TrainConfig
from chop.config.transform import TransformConfig
from chop.config.view import ViewConfig


@dataclass(frozen=True, kw_only=True)
class AnyConfig(TrainConfig, TestConfig, TransformConfig, SearchConfig, SweepConfig):
    """Every option that a TOML file may hold, so that one file serves all actions on a model."""


# The function that runs `ch NAME` is `chop.actions.NAME.NAME`; it is imported when it is needed.
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
