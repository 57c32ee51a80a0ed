"""Import paths of MASE and of earlier documentation, whose contents are elsewhere here.

`import chop` adds a finder of modules. For each path of `MOVED` it makes a module with the public names of the one
at the new path. That is less than a file per path, and works for `import a.b` and `from a.b import c`. Python asks
this finder first: others would take a folder that an update has left with `__pycache__` alone for a package. Type
checkers know the new paths only.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

MOVED = {
    "chop.actions.search": "chop.searching.search",
    "chop.actions.search.strategies": "chop.searching.strategies",
    "chop.passes.graph.analysis.flop_estimator": "chop.compat.functions",
    "chop.passes.graph.analysis.flop_estimator.calculator": "chop.compat.functions",
    "chop.passes.graph.analysis.statistics": "chop.statistics",
    "chop.passes.graph.utils": "chop.compat.functions",
    "chop.tools.checkpoint_load": "chop.runs.weights",
    "chop.tools.get_input": "chop.runs.input_generator",
}
"""The new path of each module by its old one."""


class MovedModules:
    """Finds the modules at old paths, and fills them when they are imported.

    `importlib.abc`, which declares these methods, is not a base class: importing it takes longer than `chop` does.
    """

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to make a module; None if its path is not an old one."""
        return ModuleSpec(name, cast(Any, self), is_package=True) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give a module the public names of the one at the new path."""
        names = vars(import_module(MOVED[module.__name__]))
        vars(module).update({name: value for name, value in names.items() if not name.startswith("_")})
