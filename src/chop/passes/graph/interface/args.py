"""The one argument of interface passes: where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from chop.options import read_options


class _Where:
    """Read from a path, or from a dict with the path under the name of the only field."""

    @classmethod
    def from_pass_args(cls, pass_args: Any, where: str) -> Self:
        (field,) = fields(cls)  # type: ignore[arg-type]
        if isinstance(pass_args, str | os.PathLike):
            return cls(Path(pass_args))  # type: ignore[call-arg]
        if isinstance(pass_args, Mapping) and field.name in pass_args:
            return read_options(cls, pass_args, where)
        raise ValueError(f"{where}: must be a path or {{'{field.name}': path}}, got {pass_args!r}")


@dataclass(frozen=True)
class SaveArgs(_Where):
    save_dir: Path
    """The folder to write; for metadata, also a .json file."""


@dataclass(frozen=True)
class LoadArgs(_Where):
    load_dir: Path
    """The folder to read; for metadata, also a .json file."""
