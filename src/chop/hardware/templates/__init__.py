"""Files with macros such as `IN_WORDS, which are replaced when a circuit is written: SystemVerilog and scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

_MACRO = re.compile(r"`([A-Z]+(?:_[A-Z]+)*)")


def read(name: str) -> str:
    """Return the text of a file of this folder."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def fill(name: str, **values: object) -> str:
    """Return the text of a file with the values of its macros; each must be given, and no others."""
    text = read(name)
    macros = set(_MACRO.findall(text))
    assert macros == set(values), f"macros of {name}: {macros ^ set(values)}"
    return _MACRO.sub(lambda macro: str(values[macro[1]]), text)


def indented(lines: Iterable[str]) -> str:
    """Return lines for a macro that is indented like the body of a module."""
    return "\n    ".join(lines)
