"""Options of `ch sweep`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.config.base import FormatsConfig, option
from chop.config.transform import TransformConfig

CalibrationMethod = Literal["min_max", "percentile", "mse", "entropy"]


@dataclass(frozen=True, kw_only=True)
class SweepConfig(FormatsConfig):
    """Measure accuracy and cost of a model in several number formats and widths."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch sweep jsc-toy jsc --load latest --formats integer,mxfp --widths 2..8",
        'ch sweep jsc-toy jsc --load latest --formats "integer(scale=float,granularity=channel),nvfp4"',
        "ch sweep jsc-toy jsc --load latest --roles weight --calibrate mse",
    )
    needs: ClassVar[Mapping[str, str]] = TransformConfig.needs

    formats: str | tuple[str, ...] = option(
        "integer", group="sweep", help="formats, with parameters in brackets: integer(scale=float),mxfp"
    )
    widths: str | int | tuple[int, ...] = option("2..8", group="sweep", help="bits per element: 2..8, or 4,6,8")
    roles: str | tuple[str, ...] = option(
        "weight,data_in", group="sweep", help="which operands to quantise: weight,data_in,bias"
    )
    calibrate: Literal["none", CalibrationMethod] = option(
        "none", group="sweep", help="how to choose ranges from training batches; none: from one batch"
    )
    recover_accuracy: bool = option(
        False, group="sweep", help="run the methods for low bit widths that suit each format; slower"
    )
    max_drop: float | None = option(
        1.0, least=0, group="sweep", help="loss of accuracy in percentage points that best.toml may have"
    )
    workers: int | None = option(1, least=1, group="sweep", help="number of processes")
