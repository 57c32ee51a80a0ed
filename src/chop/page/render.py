"""The HTML file: the document with its styles and scripts embedded."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

STYLES = (
    "vendor/uplot-1.6.32.min.css",
    "theme.css",
    "page.css",
    "graph.css",
    "charts.css",
    "table.css",
    "panel.css",
    "narrow.css",
    "print.css",
)
LIBRARIES = {
    "vendor/dagre-3.1.1.min.js": "vendor/dagre.LICENSE.txt",
    "vendor/uplot-1.6.32.min.js": "vendor/uplot.LICENSE.txt",
}
"""Third-party scripts, each with the licence that every page includes."""
SCRIPTS = (
    "dom",
    "numbers",
    "store",
    "tree",
    "layout",
    "colours",
    "view",
    "graph",
    "keys",
    "search",
    "histogram",
    "panel",
    "table",
    "bars",
    "charts",
    "pareto",
    "hardware",
    "exports",
    "main",
)


NAMES = {"Infinity": '"\\u0000inf"', "-Infinity": '"\\u0000-inf"', "NaN": '"\\u0000nan"', "": ""}
"""The strings for numbers that are not finite, and for the end of the text."""
NOT_FINITE = re.compile(r'((?:[^"NI-]++|"(?:[^"\\]++|\\.)*+"|-(?!I))*+)(-?Infinity|NaN|\Z)')
"""JSON up to the next number that is not finite, and this number; strings may contain the same words."""
MAX_PLAIN_CHARACTERS = 1_000_000
"""A longer document is compressed, to about a tenth; a shorter one stays readable in the file."""


def render(document: Mapping[str, Any]) -> str:
    """Return the page that shows `document`. It loads no other files and runs no script but its own."""
    style, script, data = "\n".join(_asset(name) for name in STYLES), _script(), embedded(document)
    is_large = len(data) > MAX_PLAIN_CHARACTERS
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("page.html")).substitute(
        policy=policy,
        title=html.escape(document["title"]),
        style=style,
        encoding="gzip" if is_large else "none",
        document=base64.b64encode(gzip.compress(data.encode(), mtime=0)).decode() if is_large else data,
        script=script,
    )


def embedded(value: Any) -> str:
    """Return JSON that is safe inside a `<script>` element: `<`, `>` and `&` are escaped.

    JSON has no NaN and infinity. They become strings that start with a null character, which no name does.
    """
    text = NOT_FINITE.sub(lambda match: match[1] + NAMES[match[2]], json.dumps(value, separators=(",", ":")))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    libraries = [f"/*\n{_asset(licence)}*/\n{_code(name)}" for name, licence in LIBRARIES.items()]
    ours = "\n".join(_code(f"{name}.js") for name in SCRIPTS)
    return "\n".join([*libraries, f'(async () => {{\n"use strict";\n{ours}\n}})();'])


def _code(name: str) -> str:
    """Return a script without the address of its source map, which a browser would try to load."""
    lines = _asset(name).splitlines()
    return "\n".join(line for line in lines if not line.startswith("//# sourceMappingURL"))


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
