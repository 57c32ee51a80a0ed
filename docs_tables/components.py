"""Tables of the architecture page: what each component is for, what it imports, and what a command loads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import chop
from chop.config import ACTIONS, engine_of

ROOT = Path(chop.__file__).parent


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


def closure_table() -> str:
    """Return a Markdown table of how many modules of the package each command loads before it runs."""
    lines = ["| loaded by | modules |", "|---|---|"]
    starts = ["chop.runs", *sorted(engine_of(name)[0] for name in ACTIONS)]
    return "\n".join([*lines, *(f"| `{start}` | {len(_closure(start))} |" for start in starts)])


def _closure(start: str) -> set[str]:
    """Return the modules that importing a module loads: itself, and what is imported at the top of each."""
    loaded: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module not in loaded:
            loaded.add(module)
            waiting += _imported_modules(module)
    return loaded


@cache
def _imported_modules(module: str) -> frozenset[str]:
    found: set[str] = set()
    for node in _top_level(_tree(_path_of(module))):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
        found.update(name for name in names if name is not None)
        if isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{name.name}" for name in node.names)
    packages = {name.rpartition(".")[0] for name in found}
    return frozenset(name for name in found | packages if name.startswith("chop") and _path_of(name).is_file())


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _top_level(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports at the top of a file, without those for type checkers."""
    return (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))


def _path_of(module: str) -> Path:
    path = ROOT.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


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
    return {module.split(".")[1] for module in _imports(_tree(file))}


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


def _title(component: str) -> str:
    """Return the name of a component: that of its folder, or of its file with `.py`."""
    return component if (ROOT / component).is_dir() else f"{component}.py"


def _file_of(component: str) -> Path:
    return ROOT / component / "__init__.py" if (ROOT / component).is_dir() else ROOT / f"{component}.py"


def _purpose(file: Path) -> str:
    """Return the first line of a file's docstring."""
    text = ast.get_docstring(_tree(file)) or ""
    return text.partition("\n")[0].rstrip(".").replace("|", "\\|")
