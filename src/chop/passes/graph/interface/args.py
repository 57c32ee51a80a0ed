"""Arguments of the interface passes: one path each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from chop.options import read_options


class _PathArgs:
    """Arguments with one field, given as a path or as a dict such as `{"save_dir": path}`."""

    @classmethod
    def from_pass_args(cls, pass_args: Any, where: str) -> Self:
        """Read a path, or a dict with the path."""
        (field,) = fields(cls)  # type: ignore[arg-type]
        if isinstance(pass_args, str | os.PathLike):
            return cls(Path(pass_args))  # type: ignore[call-arg]
        if isinstance(pass_args, Mapping) and field.name in pass_args:
            return read_options(cls, pass_args, where)
        raise ValueError(f"{where}: must be a path or {{'{field.name}': path}}, got {pass_args!r}")


@dataclass(frozen=True)
class SaveArgs(_PathArgs):
    """Where to save."""

    save_dir: Path
    """The folder to write to; for metadata, a folder, a .json or a .toml file."""


@dataclass(frozen=True)
class LoadArgs(_PathArgs):
    """Where to load from."""

    load_dir: Path
    """The folder to read from; for metadata, a folder, a .json or a .toml file."""
