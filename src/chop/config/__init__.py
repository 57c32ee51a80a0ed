"""Options of each command, as dataclasses; imports no torch."""

from chop.config.actions import ACTIONS, AnyConfig
from chop.config.base import (
    COMMAND_LINE_ONLY,
    PAIRS,
    REPEATABLE,
    ActionConfig,
    CommandConfig,
    RunConfig,
    WorkOptions,
    option,
)
from chop.config.explain import ExplainConfig
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
from chop.config.test import TestConfig
from chop.config.train import TrainConfig, TrainGrid
from chop.config.transform import TransformConfig, TransformTable
from chop.config.view import ViewConfig

__all__ = [
    "ACTIONS",
    "COMMAND_LINE_ONLY",
    "INFO_KINDS",
    "PAIRS",
    "REPEATABLE",
    "ActionConfig",
    "AnyConfig",
    "CommandConfig",
    "Direction",
    "ExplainConfig",
    "InfoConfig",
    "MetricTable",
    "ReportConfig",
    "RunConfig",
    "SearchConfig",
    "SearchTable",
    "SpaceSetup",
    "SpaceTable",
    "StrategyTable",
    "TestConfig",
    "TrainConfig",
    "TrainGrid",
    "TransformConfig",
    "TransformTable",
    "ViewConfig",
    "WorkOptions",
    "option",
]
