"""Options of each command, as dataclasses; imports no torch."""

from chop.config.actions import (
    ACTIONS,
    INFO_KINDS,
    AnyConfig,
    DemoConfig,
    ExplainConfig,
    InfoConfig,
    ReportConfig,
    TestConfig,
    ViewConfig,
    engine_of,
)
from chop.config.base import (
    COMMAND_LINE_ONLY,
    LATEST,
    PAIRS,
    REPEATABLE,
    ActionConfig,
    CommandConfig,
    Options,
    RunConfig,
    common_options,
    option,
)
from chop.config.export import ExportConfig, ExportOptions
from chop.config.hardware import (
    CheckedCircuitOptions,
    CircuitOptions,
    DesignOptions,
    EmitConfig,
    ResolveOptions,
    SimulateConfig,
    SimulationOptions,
    SimulatorName,
    Strategy,
)
from chop.config.search import (
    Granularity,
    SearchConfig,
    WidthTrainingOptions,
)
from chop.config.sweep import SweepConfig
from chop.config.train import TrainConfig, TrainGrid, TrainingOptions
from chop.config.transform import TransformConfig, TransformTable

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
    "EmitConfig",
    "ExplainConfig",
    "ExportConfig",
    "ExportOptions",
    "Granularity",
    "InfoConfig",
    "Options",
    "ReportConfig",
    "ResolveOptions",
    "RunConfig",
    "SearchConfig",
    "SimulateConfig",
    "SimulationOptions",
    "SimulatorName",
    "Strategy",
    "SweepConfig",
    "TestConfig",
    "TrainConfig",
    "TrainGrid",
    "TrainingOptions",
    "TransformConfig",
    "TransformTable",
    "ViewConfig",
    "WidthTrainingOptions",
    "common_options",
    "engine_of",
    "option",
]
