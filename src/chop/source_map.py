"""The map of this package for docs/: what each file is for, and which component imports which."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent


def component_graph() -> str:
    """Return a Mermaid diagram of the imports between components; edges that follow from others are left out."""
    imports = component_imports()
    edges = [
        f"    {component} --> {below}"
        for component in components()
        for below in sorted(_reduced(imports, component))
    ]
    return "\n".join(["```mermaid", "flowchart TD", *edges, "```"])


def component_table() -> str:
    """Return a Markdown table of the components, top to bottom: what each is for, and what it imports."""
    imports = component_imports()
    lines = ["| component | what is in it | imports |", "|---|---|---|"]
    for component in components():
        below = ", ".join(f"`{_title(each)}`" for each in components() if each in imports[component])
        lines.append(f"| `{_title(component)}` | {_purpose(_file_of(component))} | {below} |")
    return "\n".join(lines)


def file_list() -> str:
    """Return a Markdown list of every folder and file, one line each."""
    parts = []
    for component in sorted(components()):
        path = ROOT / component
        if not path.is_dir():
            continue
        lines = [f"### {component}/", "", _purpose(_file_of(component)), ""]
        parts.append("\n".join([*lines, *_lines(path)]))
    top = [f"- `{file.name}`: {_purpose(file)}" for file in _python_files(ROOT)]
    return "\n\n".join(["\n".join(["### chop/", "", *top]), *parts])


@cache
def components() -> list[str]:
    """Return the folders and single files of the package, each above everything that it imports."""
    order = TopologicalSorter(
        {component: sorted(below) for component, below in sorted(component_imports().items())}
    )
    return list(order.static_order())[::-1]


@cache
def component_imports() -> Mapping[str, set[str]]:
    """Return, for each component, the other components that its files import, lazily or not."""
    found: dict[str, set[str]] = {}
    for file in sorted(ROOT.rglob("*.py")):
        component = file.relative_to(ROOT).parts[0].removesuffix(".py")
        if not component.startswith("__"):
            found.setdefault(component, set()).update(_imported_components(file) - {component})
    return found


def _imported_components(file: Path) -> set[str]:
    return {module.split(".")[1] for module in _imports(ast.parse(file.read_text(encoding="utf-8")))}


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules of this package that a file imports at run time."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chop."):
            yield str(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "chop":
            yield from (f"chop.{name.name}" for name in node.names if (ROOT / name.name).is_dir())
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("chop."))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "import_module":
            yield from (text for text in _texts(node) if text.startswith("chop."))
        yield from _imports(node)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings in an expression, including the fixed parts of f-strings."""
    return (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _reduced(imports: Mapping[str, set[str]], component: str) -> set[str]:
    """Return the imports of a component that are not also imports of another component that it imports."""
    indirect: set[str] = set()
    for below in imports[component]:
        indirect |= _reachable(imports, below)
    return imports[component] - indirect


def _reachable(imports: Mapping[str, set[str]], component: str) -> set[str]:
    return set(imports[component]).union(*(_reachable(imports, below) for below in imports[component]))


def _lines(folder: Path, indent: str = "") -> Iterator[str]:
    for file in _python_files(folder):
        yield f"{indent}- `{file.name}`: {_purpose(file)}"
    for child in sorted(folder.iterdir()):
        if (child / "__init__.py").is_file():
            yield f"{indent}- `{child.name}/`: {_purpose(child / '__init__.py')}"
            yield from _lines(child, indent + "  ")


def _python_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.glob("*.py")) if not file.name.startswith("__")]


def _title(component: str) -> str:
    """Return the name of a component: that of its folder, or of its file with `.py`."""
    return component if (ROOT / component).is_dir() else f"{component}.py"


def _file_of(component: str) -> Path:
    return ROOT / component / "__init__.py" if (ROOT / component).is_dir() else ROOT / f"{component}.py"


def _purpose(file: Path) -> str:
    """Return the first line of a file's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".").replace("|", "\\|")
