"""Options of each command, as dataclasses; imports no torch."""

from chop.config.actions import ACTIONS, AnyConfig
from chop.config.base import (
    COMMAND_LINE_ONLY,
    LATEST,
    PAIRS,
    REPEATABLE,
    ActionConfig,
    CommandConfig,
    Options,
    RunConfig,
    WorkOptions,
    common_options,
    option,
)
from chop.config.demo import DemoConfig
from chop.config.emit import EmitConfig
from chop.config.explain import ExplainConfig
from chop.config.export import ExportConfig, ExportOptions
from chop.config.hardware import (
    CheckedCircuitOptions,
    CircuitOptions,
    DesignOptions,
    ResolveOptions,
    SimulationOptions,
    SimulatorName,
    Strategy,
)
from chop.config.info import INFO_KINDS, InfoConfig
from chop.config.report import ReportConfig
from chop.config.search import (
    Direction,
    Granularity,
    MetricTable,
    SearchConfig,
    SearchTable,
    SpaceSetup,
    SpaceTable,
    StrategyTable,
    WidthTrainingOptions,
)
from chop.config.simulate import SimulateConfig
from chop.config.sweep import SweepConfig
from chop.config.test import TestConfig
from chop.config.train import TrainConfig, TrainGrid, TrainingOptions
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
    "CheckedCircuitOptions",
    "CircuitOptions",
    "CommandConfig",
    "DemoConfig",
    "DesignOptions",
    "Direction",
    "EmitConfig",
    "ExplainConfig",
    "ExportConfig",
    "ExportOptions",
    "Granularity",
    "InfoConfig",
    "MetricTable",
    "Options",
    "ReportConfig",
    "ResolveOptions",
    "RunConfig",
    "SearchConfig",
    "SearchTable",
    "SimulateConfig",
    "SimulationOptions",
    "SimulatorName",
    "SpaceSetup",
    "SpaceTable",
    "Strategy",
    "StrategyTable",
    "SweepConfig",
    "TestConfig",
    "TrainConfig",
    "TrainGrid",
    "TrainingOptions",
    "TransformConfig",
    "TransformTable",
    "ViewConfig",
    "WidthTrainingOptions",
    "WorkOptions",
    "common_options",
    "option",
]
