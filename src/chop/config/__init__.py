"""Options of each command, as dataclasses; imports no torch."""

from chop.config.actions import ACTIONS, AnyConfig
from chop.config.base import (
    COMMAND_LINE_ONLY,
    LATEST,
    PAIRS,
    REPEATABLE,
    ActionConfig,
    CommandConfig,
    RunConfig,
    WorkOptions,
    common_options,
    option,
)
from chop.config.demo import DemoConfig
from chop.config.emit import EmitConfig, HardwareOptions
from chop.config.explain import ExplainConfig
from chop.config.export import ExportConfig
from chop.config.info import INFO_KINDS, InfoConfig
from chop.config.report import ReportConfig
from chop.config.search import (
    Direction,
    MetricTable,
    SearchConfig,
    SearchTable,
    SpaceSetup,
    SpaceTable,
    StrategyTable,
)
from chop.config.simulate import SimulateConfig
from chop.config.sweep import SweepConfig
from chop.config.test import TestConfig
from chop.config.train import TrainConfig, TrainGrid
from chop.config.transform import TransformConfig, TransformTable
from chop.config.view import ViewConfig

__all__ = [
    "ACTIONS",
    "COMMAND_LINE_ONLY",
    "INFO_KINDS",
    "LATEST",
    "PAIRS",
    "REPEATABLE",
    "ActionConfig",
    "AnyConfig",
    "CommandConfig",
    "DemoConfig",
    "Direction",
    "EmitConfig",
    "ExplainConfig",
    "ExportConfig",
    "HardwareOptions",
    "InfoConfig",
    "MetricTable",
    "ReportConfig",
    "RunConfig",
    "SearchConfig",
    "SearchTable",
    "SimulateConfig",
    "SpaceSetup",
    "SpaceTable",
    "StrategyTable",
    "SweepConfig",
    "TestConfig",
    "TrainConfig",
    "TrainGrid",
    "TransformConfig",
    "TransformTable",
    "ViewConfig",
    "WorkOptions",
    "common_options",
    "option",
]
