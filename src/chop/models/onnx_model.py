"""Models in ONNX and QONNX files; the formats of their quantisers are set in the graph."""

from __future__ import annotations

import copy
from pathlib import Path

from torch import nn

from chop.models.base import ModelInfo
from chop.models.onnx_reader.read import read_onnx


def describe_onnx(name: str) -> ModelInfo:
    """Return the description of a model in an ONNX file."""
    model, inputs = read_onnx(Path(name).expanduser())

    def make() -> nn.Module:
        """A model of an ONNX file."""
        return copy.deepcopy(model)

    return ModelInfo(
        name=name,
        make=make,
        inputs=inputs,
        tasks=("cls",),
        summary="A model of an ONNX file.",
        sample_dims=None,
        has_weights=True,
    )
