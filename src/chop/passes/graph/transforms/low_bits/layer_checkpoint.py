"""Finished layers as files, with which an interrupted pass continues."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from chop.files import write_bytes
from chop.passes.graph.transforms.low_bits.layer_problem import LayerProblem


class LayerCheckpoint:
    """The file of one finished layer; it is used only if weight, inputs and arguments are the same as before."""

    def __init__(self, folder: Path | None, name: str, problem: LayerProblem, settings: Mapping[str, Any]) -> None:
        self.path = None if folder is None else folder / f"{name}.safetensors"
        self.identity = "" if folder is None else _digest(problem, settings)

    def load(self) -> tuple[Tensor, Tensor | None] | None:
        """Return the weight and the bias of the layer; None if they are to be computed."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with safe_open(self.path, "pt") as file:
                same = (file.metadata() or {}).get("identity") == self.identity
                bias = file.get_tensor("bias") if "bias" in file.keys() else None  # noqa: SIM118
                return (file.get_tensor("weight"), bias) if same else None
        except SafetensorError as error:
            raise ValueError(f"{self.path} is corrupt ({error}); delete it to compute the layer again") from error

    def save(self, weight: Tensor, bias: Tensor | None) -> None:
        """Write the file, if there is a folder for it."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            tensors = {"weight": weight.contiguous()} | ({} if bias is None else {"bias": bias.contiguous()})
            write_bytes(self.path, save(tensors, {"identity": self.identity}))


def _digest(problem: LayerProblem, settings: Mapping[str, Any]) -> str:
    """Return what the result for a layer depends on, as a hash."""
    digest = hashlib.sha256(repr((settings, problem.number_format, problem.layer.formats)).encode())
    drift = problem.moments.drift
    tensors = [problem.original, problem.moments.products, *(() if drift is None else (drift.products,))]
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
