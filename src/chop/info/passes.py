"""Passes: their kind and their arguments."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import Any

from chop.info.page import Kind, Listing, Page, documentation, summary
from chop.info.parameters import field_table
from chop.passes import PASSES
from chop.toml import write_toml


def pass_table() -> Listing:
    """Return the table of all passes."""
    rows = [(name, run.kind, summary(run)) for name, run in PASSES.items()]
    return Listing(("name", "kind", "what it does"), rows)


def pass_page(name: str) -> Page:
    """Return the page of a pass."""
    run = PASSES[name]
    is_ours = run.__module__.startswith("chop.passes.graph.")
    arguments = run.args_class
    return Page(
        title=f"pass {name}",
        text=documentation(run),
        facts={
            "kind": run.kind,
            "in Python": f"from chop.passes.graph import {run.__name__}" if is_ours else run.__name__,
            "in TOML": f"[passes.{name}]",
            "arguments": documentation(arguments),
            "form": documentation(getattr(arguments, "from_pass_args", None)).removeprefix("Read "),
        },
        tables={"arguments": field_table(arguments)},
        drawing=f"example:\n{textwrap.indent(_example(name, arguments), '  ')}".rstrip(),
    )


def _example(name: str, arguments: type[Any]) -> str:
    """Return a part of a TOML file that runs the pass: the one it declares, or one with its default values."""
    declared = getattr(arguments, "example", None)
    if declared is not None:
        return str(declared)
    plain = {each.name: each.default for each in fields(arguments) if isinstance(each.default, str | int | float)}
    return f"[passes.{name}]\n{write_toml(plain)}"


KIND = Kind(pass_table, pass_page)
