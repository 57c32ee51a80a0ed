"""Options of `ch export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from chop.config.base import RunConfig, option


@dataclass(frozen=True, kw_only=True)
class ExportConfig(RunConfig):
    """Write the model of a run as a file for other tools, and prove that the file computes the same."""

    examples: ClassVar[tuple[str, ...]] = ("ch export latest --format safetensors",)

    format: Literal["safetensors"] = option("safetensors", help="kind of file: packed integers and scales")
    output: Path | None = option(None, help="file to write; default: in the folder 'export' of the run")
    samples: int = option(1000, least=1, help="number of test samples on which the file is run and compared")
