"""Names and docstrings of the source: what holds for every module of the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "chop"
VAGUE_STEMS = ("utils2", "misc", "helper", "helpers", "common", "stuff", "tools2", "new", "old")
MODULES = [path.relative_to(SOURCE).as_posix() for path in SOURCE.glob("**/*.py")]

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_private(path: str) -> bool:
    """Whether a module, or a package around it, starts with an underscore."""
    return any(part.startswith("_") and part != "__init__.py" for part in path.split("/"))


def public_definitions(tree: ast.Module) -> Iterator[Definition]:
    """Yield the public classes and functions of a module, without those inside classes and functions."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def parse(path: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse((SOURCE / path).read_bytes())


def test_no_two_public_classes_have_the_same_name() -> None:
    modules = defaultdict(list)
    for path in MODULES:
        for node in public_definitions(parse(path)):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(path)
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


def test_file_names_say_what_is_inside() -> None:
    assert [path for path in MODULES if Path(path).stem in VAGUE_STEMS] == []


def test_modules_and_public_definitions_have_docstrings() -> None:
    undocumented = []
    for path in MODULES:
        if not is_private(path):
            tree = parse(path)
            undocumented += [
                f"{path}: {node.name}" for node in public_definitions(tree) if not ast.get_docstring(node)
            ]
            undocumented += [] if ast.get_docstring(tree) else [path]
    assert undocumented == []
