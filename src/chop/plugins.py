"""Imports Python files of users by path; errors in them are reported with file and line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from chop.registry import closest

_loaded: dict[Path, ModuleType] = {}


def load_plugin(path: Path) -> ModuleType:
    """Import the file at `path`, once per process, so that the names it registers can be used."""
    file = path.resolve()
    if file in _loaded:
        return _loaded[file]
    if not file.is_file():
        raise ValueError(f"Python file '{path}' does not exist")
    if file.suffix != ".py":
        raise ValueError(f"'{path}' is not a Python file: its name does not end in .py")
    name = f"{path.stem}_{zlib.crc32(bytes(file)):x}"  # files with the same name in other folders are other modules
    module = _run_source(name, file, str(path))
    _loaded[file] = module
    return module


def _run_source(name: str, file: Path, shown: str) -> ModuleType:
    """Import a file from its source, never from compiled code next to it, which may be that of another file."""
    loader = SourceFileLoader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with _on_sys_path(file.parent), _reporting_lines(shown, file.parent):
        exec(loader.source_to_code(file.read_bytes(), str(file)), vars(module))
    return module


def is_loaded(path: Path) -> bool:
    """Whether the file at `path` has run in this process."""
    return path.resolve() in _loaded


def load_object(reference: str) -> object:
    """Return the object that `path/to/file.py:Name` or `module.path:Name` refers to."""
    return _load(reference)[1]


def load_maker(reference: str, is_known: Callable[[type[Any]], bool], what: str) -> Callable[..., Any]:
    """Return the class or function of a reference: one that a file of the user defines, or a class that `is_known`.

    Other objects are refused, because calling any function that can be imported could do anything. `what` names
    the known classes in the error message.
    """
    module, found = _load(reference)
    if isinstance(found, type) and is_known(found):
        return found
    is_own = getattr(found, "__module__", None) == module.__name__ and not _is_installed(module)
    if isinstance(found, type | FunctionType) and is_own:
        return found
    kind = type(found).__name__
    raise ValueError(
        f"'{reference}' is of type {kind}; it must be {what}, or a function that your own file defines"
    )


def _load(reference: str) -> tuple[ModuleType, object]:
    source, _, name = reference.rpartition(":")
    module = load_plugin(Path(source)) if source.endswith(".py") else _import_module(source)
    if not hasattr(module, name):
        known = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(f"'{source}' does not define '{name}'; {closest(name, known)}")
    return module, getattr(module, name)


def source_files(reference: str) -> list[Path]:
    """Return the files that `load_object` would run, without running them; none if the name is not a reference."""
    source = reference.rpartition(":")[0]
    if source.endswith(".py"):
        return [Path(source)]
    if not all(part.isidentifier() for part in source.split(".")):
        return []
    with _on_sys_path(Path.cwd()):
        return [Path(spec.origin) for spec in _find_specs(source) if spec.has_location and spec.origin]


def _find_specs(module: str) -> Iterator[ModuleSpec]:
    """Yield the packages around a module and the module itself; `importlib.util.find_spec` would import them."""
    path, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((each for each in found if each is not None), None)
        if spec is None:
            return
        yield spec
        path = spec.submodule_search_locations
        if path is None:
            return


def _is_installed(module: ModuleType) -> bool:
    """Whether a module is part of Python or of an installed package, rather than a file of the user."""
    if not getattr(module, "__file__", None):
        return True
    file = Path(str(module.__file__)).resolve()
    is_standard = file.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())
    return is_standard or not {"site-packages", "dist-packages"}.isdisjoint(file.parts)


def is_reference(name: str) -> bool:
    """Whether a name has the form `path/to/file.py:Name` or `module.path:Name`."""
    return ":" in name


def users_frame(error: BaseException) -> str | None:
    """Return the last line of a loaded file in the traceback of an error, as `file.py, line 3`, or None."""
    files = {str(file) for file in _loaded}
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}, line {frame.lineno}" for frame in frames if frame.filename in files]
    return lines[-1] if lines else None


def _import_module(name: str) -> ModuleType:
    folder = Path.cwd()  # not on sys.path when `ch` runs
    with _on_sys_path(folder), _reporting_lines(name, folder):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise ImportError(f"module '{name}' does not exist; to use a file, write path/to/net.py:Net") from error
    if getattr(module, "__file__", None):
        _loaded[Path(str(module.__file__)).resolve()] = module
    return module


@contextmanager
def _reporting_lines(what: str, folder: Path) -> Iterator[None]:
    """Add file and line to every error in a file of `folder`; `what` is named if they are unknown."""
    try:
        yield
    except SyntaxError as error:
        line = f"{error.filename}, line {error.lineno}" if error.filename else what
        raise ValueError(f"{line}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_users(each.filename, folder)]
        line = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else f"'{what}'"
        raise ValueError(f"{line}: {type(error).__name__}: {error}") from error


def _is_users(filename: str, folder: Path) -> bool:
    """Whether a file is in `folder` and not part of this package, which may be in the same folder."""
    return Path(filename).is_relative_to(folder) and not Path(filename).is_relative_to(Path(__file__).parent)


@contextmanager
def _on_sys_path(folder: Path) -> Iterator[None]:
    """Let a file import the files next to it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
