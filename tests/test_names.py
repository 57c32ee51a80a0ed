"""Names and docstrings of the source: what holds for every module of the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "chop"
VAGUE_STEMS = ("utils2", "misc", "helper", "helpers", "common", "stuff", "tools2", "new", "old")
MODULES = [path.relative_to(SOURCE).as_posix() for path in SOURCE.glob("**/*.py")]

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_private(path: str) -> bool:
    """Whether a module, or a package around it, starts with an underscore."""
    return any(part.startswith("_") and part != "__init__.py" for part in path.split("/"))


class Module(NamedTuple):
    """What is checked of a module."""

    path: str
    classes: list[str]
    """The public ones, without those inside classes and functions."""
    undocumented: list[str]


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return [read(path) for path in MODULES]


def read(path: str) -> Module:
    tree = ast.parse((SOURCE / path).read_bytes())
    public = [node for node in tree.body if isinstance(node, Definition) and not node.name.startswith("_")]
    undocumented = [f"{path}: {node.name}" for node in public if not ast.get_docstring(node)]
    undocumented += [] if ast.get_docstring(tree) else [path]
    return Module(path, [node.name for node in public if isinstance(node, ast.ClassDef)], undocumented)


def test_no_two_public_classes_have_the_same_name(modules: list[Module]) -> None:
    paths = defaultdict(list)
    for module in modules:
        for name in module.classes:
            paths[name].append(module.path)
    assert {name: found for name, found in paths.items() if len(found) > 1} == {}


def test_file_names_say_what_is_inside() -> None:
    assert [path for path in MODULES if Path(path).stem in VAGUE_STEMS] == []


def test_modules_and_public_definitions_have_docstrings(modules: list[Module]) -> None:
    assert [each for module in modules if not is_private(module.path) for each in module.undocumented] == []
