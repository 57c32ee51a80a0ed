"""Options of `ch export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from chop.config.base import RunConfig, option


@dataclass(frozen=True, kw_only=True)
class ExportConfig(RunConfig):
    """Write the model of a run as a file for other tools, and prove that the file computes the same."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch export latest --format onnx",
        "ch export latest --format safetensors --output jets.safetensors",
    )

    format: Literal["onnx", "qonnx", "safetensors"] = option(
        "onnx", help="kind of file: ONNX, ONNX with the quantisers of QONNX, or packed integers with their scales"
    )
    output: Path | None = option(None, help="file or folder to write to; default: the folder 'export' of the run")
    opset: int | None = option(
        None, least=1, help="opset of an ONNX file; default: the smallest that has all types"
    )
    samples: int = option(1000, least=1, help="number of test samples on which the file is run and compared")
