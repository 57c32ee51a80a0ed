"""Finished layers as files, with which an interrupted pass continues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from chop.files import check_regular, write_bytes


class LayerCheckpoint:
    """The file of a finished layer or block; it is used only if all that its tensors depend on is as before."""

    def __init__(self, folder: Path | None, name: str, settings: object, depends_on: Iterable[Tensor]) -> None:
        self.path = None if folder is None else folder / f"{name}.safetensors"
        self.identity = ""
        if folder is not None:
            digest = hashlib.sha256(repr(settings).encode())
            for tensor in depends_on:
                digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
            self.identity = digest.hexdigest()

    def load(self) -> dict[str, Tensor] | None:
        """Return the tensors by name; None if they are to be computed."""
        if self.path is None or not self.path.exists():
            return None
        check_regular(self.path)
        try:
            with safe_open(self.path, "pt") as file:
                same = (file.metadata() or {}).get("identity") == self.identity
                return {name: file.get_tensor(name) for name in file.keys()} if same else None  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(f"{self.path} is corrupt ({error}); delete it to compute the layer again") from error

    def save(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the file, if there is a folder for it."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
            write_bytes(self.path, save(contiguous, {"identity": self.identity}))
