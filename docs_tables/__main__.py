"""`python -m docs_tables`: updates the generated tables in docs/ from the registries."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from chop.compat import MOVED
from chop.formats import FORMATS
from chop.info import find_kind
from chop.info.page import Listing, escape
from chop.passes import PASSES
from docs_tables.components import closure_table, component_graph, component_table
from docs_tables.coverage import coverage_table
from docs_tables.export_formats import export_table
from docs_tables.special_values import special_value_table

PAGES = ("coming-from-mase.md", "formats.md", "export.md", "passes.md", "ops.md", "architecture.md")
# A table is between `<!-- table: formats -->` and `<!-- end -->`; the rest of a page is written by hand.
_MARKED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(text: str) -> str:
    """Return the text of a page with its tables brought up to date."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", text)


def _overview(kind: str) -> str:
    return find_kind(kind).table().markdown()


def _each(kind: str, names: list[str]) -> str:
    """Return a section per name with its docstring and its parameters."""
    parts = []
    for name in names:
        page = find_kind(kind).page(name)
        tables = [table.markdown() for table in page.tables.values() if table.rows]
        parts.append("\n\n".join([f"### {name}", escape(page.text), *tables]))
    return "\n\n".join(parts)


TABLES: Mapping[str, Callable[[], str]] = {
    "formats": lambda: _overview("formats"),
    "format-special-values": lambda: special_value_table().markdown(),
    "format-parameters": lambda: _each("formats", sorted(FORMATS)),
    "passes": lambda: _overview("passes"),
    "pass-arguments": lambda: _each("passes", list(PASSES)),
    "ops": lambda: _overview("ops"),
    "op-coverage": lambda: coverage_table().markdown(),
    "export": lambda: export_table().markdown(),
    "models": lambda: _overview("models"),
    "datasets": lambda: _overview("datasets"),
    "moved": lambda: Listing(("old path", "new path"), [(f"`{a}`", f"`{b}`") for a, b in MOVED.items()]).markdown(),
    "components": component_table,
    "component-graph": component_graph,
    "closures": closure_table,
}


def main(folder: Path) -> None:
    """Bring the tables of the pages in `folder` up to date."""
    for name in PAGES:
        page = folder / name
        text = page.read_text(encoding="utf-8")
        if fill(text) != text:
            page.write_text(fill(text), encoding="utf-8")
            print(f"updated {page}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
