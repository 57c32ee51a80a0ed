"""Options of `ch test`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chop.config.base import TRAINING_ONLY, ActionConfig


@dataclass(frozen=True, kw_only=True)
class TestConfig(ActionConfig):
    """Evaluate a model on the test split of a data set."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch test jsc-tiny jsc --load mase_output/jsc-tiny_classification_jsc_2026-01-31",
    )
    needs: ClassVar[Mapping[str, str]] = {**ActionConfig.needs, **dict.fromkeys(TRAINING_ONLY, "")}
    __test__ = False  # not a test case, although pytest would take its name for one
