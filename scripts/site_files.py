"""Hooks of mkdocs: files of the repository that the pages link to, such as CONTRIBUTING.md, are on the site too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PATTERNS = ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/results/*.md", "configs/examples/*")


def on_files(files: Files, config: Any) -> Files:
    """Add the files, at their paths in the repository."""
    for pattern in PATTERNS:
        for path in ROOT.glob(pattern):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with links that fit the site, where docs/ is the root and not a folder."""
    name = page.file.src_uri
    if (ROOT / "docs" / name).is_file():
        up = "../" * (name.count("/") + 1)
        return markdown.replace(f"]({up}", f"]({up.removeprefix('../')}")
    return re.sub(r"(\]\((?:\.\./)*)docs/", r"\1", markdown)
