"""Imports Python files of users by path; errors in them are reported with file and line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from chop.registry import closest

_loaded: dict[Path, ModuleType] = {}


def load_plugin(path: Path) -> ModuleType:
    """Import the file at `path`, once per process, so that the names it registers can be used."""
    file = path.resolve()
    if file in _loaded:
        return _loaded[file]
    if not file.is_file():
        raise ValueError(f"Python file '{path}' does not exist")
    name = f"{path.stem}_{zlib.crc32(bytes(file)):x}"  # files with the same name in other folders are other modules
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"'{path}' is not a Python file: its name does not end in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with _on_sys_path(file.parent), _reporting_lines(str(path), file.parent):
        spec.loader.exec_module(module)
    _loaded[file] = module
    return module


def load_object(reference: str) -> object:
    """Return the object that `path/to/file.py:Name` or `module.path:Name` refers to."""
    source, _, name = reference.rpartition(":")
    module = load_plugin(Path(source)) if source.endswith(".py") else _import_module(source)
    if not hasattr(module, name):
        known = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(f"'{source}' does not define '{name}', {closest(name, known)}")
    return getattr(module, name)


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
    if module.__file__:
        _loaded[Path(module.__file__).resolve()] = module
    return module


@contextmanager
def _reporting_lines(what: str, folder: Path) -> Iterator[None]:
    """Add file and line to every error in a file of `folder`; `what` is named if they are unknown."""
    try:
        yield
    except SyntaxError as error:
        line = f"{error.filename}, line {error.lineno}" if error.filename else what
        raise ValueError(f"{line}: {type(error).__name__}: {error.msg}") from error
    except Exception as error:
        frames = [each for each in traceback.extract_tb(error.__traceback__) if str(folder) in each.filename]
        line = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else f"'{what}'"
        raise ValueError(f"{line}: {type(error).__name__}: {error}") from error


@contextmanager
def _on_sys_path(folder: Path) -> Iterator[None]:
    """Let a file import the files next to it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
