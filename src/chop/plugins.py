"""Users' own Python files: imported by path, with every mistake in them explained."""

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
    """The file at `path`, imported once; what it registers is known by its name from then on."""
    file = path.resolve()
    if file in _loaded:
        return _loaded[file]
    if not file.is_file():
        raise ValueError(f"there is no Python file '{path}'")
    name = f"{path.stem}_{zlib.crc32(bytes(file)):x}"  # another file of the same name is another module
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"'{path}' is no Python file: its name does not end in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with _looking_in(file.parent), _explaining(str(path), file.parent):
        spec.loader.exec_module(module)
    _loaded[file] = module
    return module


def load_object(reference: str) -> object:
    """What `path/to/file.py:Name` or `module.path:Name` refers to."""
    place, _, name = reference.rpartition(":")
    module = load_plugin(Path(place)) if place.endswith(".py") else _import_module(place)
    if not hasattr(module, name):
        known = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(f"'{place}' defines no '{name}', {closest(name, known)}")
    return getattr(module, name)


def is_reference(name: str) -> bool:
    """Whether a name is `path/to/file.py:Name` or `module.path:Name`."""
    return ":" in name


def users_frame(error: BaseException) -> str | None:
    """`file.py, line 3` of the last place in a user's own file that an error went through, if it did."""
    files = {str(file) for file in _loaded}
    frames = traceback.extract_tb(error.__traceback__)
    mine = [f"{frame.filename}, line {frame.lineno}" for frame in frames if frame.filename in files]
    return mine[-1] if mine else None


def _import_module(name: str) -> ModuleType:
    folder = Path.cwd()  # where `ch` lets Python look for these modules only
    with _looking_in(folder), _explaining(name, folder):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise ImportError(f"there is no module '{name}'; a file is written as path/to/net.py:Net") from error
    if module.__file__:
        _loaded[Path(module.__file__).resolve()] = module
    return module


@contextmanager
def _explaining(what: str, folder: Path) -> Iterator[None]:
    """Names the file and the line of whatever goes wrong in a user's file."""
    try:
        yield
    except SyntaxError as error:
        place = f"{error.filename}, line {error.lineno}" if error.filename else what
        raise ValueError(f"{place}: {type(error).__name__}: {error.msg}") from error
    except Exception as error:
        frames = [each for each in traceback.extract_tb(error.__traceback__) if str(folder) in each.filename]
        place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else f"'{what}'"
        raise ValueError(f"{place}: {type(error).__name__}: {error}") from error


@contextmanager
def _looking_in(folder: Path) -> Iterator[None]:
    """Lets a file import those beside it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
