"""Passes: their kind, and the arguments that each takes."""

from __future__ import annotations

from typing import Any, get_type_hints

from chop.info.page import Page, Table, documentation, summary
from chop.info.parameters import field_table
from chop.passes import ANALYSIS_PASSES, PASSES, TRANSFORM_PASSES


def pass_table() -> Table:
    rows = [(name, _kind(name), summary(run)) for name, run in PASSES.items()]
    return Table(("name", "kind", "what it does"), rows)


def pass_page(name: str) -> Page:
    run, arguments = PASSES[name], arguments_of(name)
    return Page(
        title=f"pass {name}",
        text=documentation(run),
        facts={
            "kind": _kind(name),
            "in Python": f"from chop.passes.graph import {run.__name__}" if _is_ours(run) else run.__name__,
            "in TOML": f"[passes.{name}]",
            "arguments are": documentation(arguments),
            "written as": documentation(getattr(arguments, "from_pass_args", None)).removeprefix("Read "),
        },
        tables={"arguments": field_table(arguments)},
    )


def arguments_of(name: str) -> type[Any]:
    """The dataclass that a pass reads its arguments into."""
    function: Any = PASSES[name]
    cls = get_type_hints(function.__wrapped__)["args"]
    assert isinstance(cls, type), f"the arguments of pass '{name}' have no dataclass"
    return cls


def _kind(name: str) -> str:
    if name in TRANSFORM_PASSES:
        return "transform"
    return "analysis" if name in ANALYSIS_PASSES else "interface"


def _is_ours(run: Any) -> bool:
    import chop.passes.graph

    return run.__name__ in chop.passes.graph.__all__
