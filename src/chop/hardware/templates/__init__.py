"""SystemVerilog with macros such as `IN_WORDS, which are replaced when a circuit is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

_MACRO = re.compile(r"`([A-Z]+(?:_[A-Z]+)*)")


def fill(name: str, **values: object) -> str:
    """Return the text of `name`.sv with the values of its macros; each must be given, and no others."""
    text = files(__package__).joinpath(f"{name}.sv").read_text(encoding="utf-8")
    macros = set(_MACRO.findall(text))
    assert macros == set(values), f"macros of {name}.sv: {macros ^ set(values)}"
    return _MACRO.sub(lambda macro: str(values[macro[1]]), text)


def indented(lines: Iterable[str]) -> str:
    """Return lines for a macro that is indented like the body of a module."""
    return "\n    ".join(lines)
