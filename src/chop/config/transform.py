"""Options of `ch transform`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chop.config.base import TRAINING_ONLY, ActionConfig, option


@dataclass(frozen=True)
class TransformTable:
    """The `[transform]` table of a TOML file."""

    style: Literal["graph", "module"] = (
        "graph"  # module: replace layers only, for models that cannot be captured as a graph
    )
    evaluate: bool = True  # evaluate the model before and after
    cache_weights: bool = True  # keep the rounded weights during an evaluation; false: round in every batch


@dataclass(frozen=True, kw_only=True)
class TransformConfig(ActionConfig):
    """Run the passes of a TOML file over a model and save the resulting graph."""

    examples: ClassVar[tuple[str, ...]] = ("ch transform --config configs/examples/jsc_toy_by_type.toml --report",)
    needs: ClassVar[Mapping[str, str]] = {
        **ActionConfig.needs,
        **dict.fromkeys((*TRAINING_ONLY, "trainer_precision"), ""),
    }

    passes: Mapping[str, Mapping[str, Any]] = option({}, kind="toml", help="[passes.NAME], run in order")
    transform: TransformTable = option(TransformTable(), kind="toml", help="the [transform] table")
    recover_accuracy: bool = option(
        False, help="after quantize, run the methods for low bit widths that suit the formats"
    )
    report: bool = option(False, group="output", help="also write a report, like ch report")
    open: bool = option(False, group="output", help="also write a report and open it in a browser")

    @property
    def quantizes(self) -> bool:
        """Whether the command rounds a model to number formats, so that it starts from one in float."""
        return "quantize" in self.passes
