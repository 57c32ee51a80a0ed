"""The one argument of interface passes: where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from chop.options import read_options


@dataclass(frozen=True)
class _Where:
    """A path, or a dict with the path under `key`."""

    key: ClassVar[str]
    path: Path

    @classmethod
    def from_pass_args(cls, pass_args: Any, where: str) -> Self:
        if isinstance(pass_args, str | os.PathLike):
            return cls(Path(pass_args))
        if isinstance(pass_args, Mapping):
            renamed = {"path" if key == cls.key else key: value for key, value in pass_args.items()}
            if "path" in renamed and "path" not in pass_args:
                return read_options(cls, renamed, where)
        raise ValueError(f"{where}: must be a path or {{'{cls.key}': path}}, got {pass_args!r}")


@dataclass(frozen=True)
class SaveArgs(_Where):
    key = "save_dir"


@dataclass(frozen=True)
class LoadArgs(_Where):
    key = "load_dir"
