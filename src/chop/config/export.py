"""Options of exports, which the command, the passes and the engine share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chop.config.base import Options, RunConfig, option


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """How a model is written as a file for other tools."""

    opset: int | None = option(
        None, least=1, help="opset of an ONNX file; default: the smallest that has all types"
    )
    samples: int = option(
        1000, least=1, aliases=("num_samples",), help="number of samples on which the file is run and compared"
    )


@dataclass(frozen=True, kw_only=True)
class ExportConfig(ExportOptions, RunConfig):
    """Write the model of a run as a file for other tools, and prove that the file computes the same."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch export latest --format onnx",
        "ch export latest --format safetensors --output jets.safetensors",
    )

    format: str = option(
        "onnx",
        help="kind of file: onnx, qonnx (ONNX with the quantisers of QONNX), safetensors (packed integers with "
        "their scales), or one of a plug-in",
    )
    output: Path | None = option(None, help="file or folder to write to; default: the folder 'export' of the run")
