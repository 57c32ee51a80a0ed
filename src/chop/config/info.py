"""Options of `ch info`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chop.config.base import CommandConfig, option
from chop.registry import UnknownNameError, closest

INFO_KINDS = ("models", "datasets", "formats", "passes", "ops")
"""The kinds of things that `ch info` lists; a module of `chop.info` has the table and the page of each."""


@dataclass(frozen=True, kw_only=True)
class InfoConfig(CommandConfig):
    """List all models, data sets, formats, passes or ops, or describe one of them."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch info",
        "ch info formats",
        "ch info formats integer --png integer.png",
        "ch info models --plugin my_networks.py",
    )

    kind: str | None = option(None, kind="positional", help=f"{', '.join(INFO_KINDS)}; default: list these")
    name: str | None = option(None, kind="positional", help="name of the entry to describe; default: list all")
    png: Path | None = option(None, help="plot the values of a format to this file")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind is not None and self.kind not in INFO_KINDS:
            raise UnknownNameError(f"unknown kind '{self.kind}'; {closest(self.kind, INFO_KINDS)}")
        if self.png is not None and (self.kind != "formats" or self.name is None):
            raise ValueError("--png plots the values of one format: ch info formats NAME --png PATH")
