"""Imports Python files of users by path; errors in them are reported with file and line."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from chop.registry import closest

_loaded: dict[Path, ModuleType] = {}
_checked: dict[Path, bytes] = {}


class _SourceLoader(SourceFileLoader):
    """Runs a file as it was checked, and never compiled code next to it, which may be that of another file."""

    def get_code(self, fullname: str) -> CodeType:
        content = self.get_data(self.path)
        if _checked.pop(Path(self.path).resolve(), content) != content:
            raise ValueError(f"'{self.path}' was changed after it was checked; repeat the command")
        return self.source_to_code(content, self.path)


def expect_content(file: Path, content: bytes) -> None:
    """Let the next import of a file fail if the file holds something else by then."""
    _checked[file.resolve()] = content


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
    loader = _SourceLoader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with _first(sys.path, str(file.parent)), _reporting_lines(shown, file.parent):
        loader.exec_module(module)
    return module


def is_loaded(path: Path) -> bool:
    """Whether the file at `path` has run in this process."""
    return _loaded.keys() >= paths_of(path)


def paths_of(file: Path) -> set[Path]:
    """Return the path of a file, and the one to which links in it lead: the files next to them may differ."""
    return {Path(os.path.abspath(file)), file.resolve()}


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
    return [Path(spec.origin) for spec in _FoundModules(source).specs.values() if spec.origin]


class _FoundModules(MetaPathFinder):
    """The source files of a module and of the packages around it: the same ones are checked and imported.

    Those in the current folder go first. Nothing is imported to find them, as `importlib.util.find_spec` does.
    """

    def __init__(self, module: str) -> None:
        self.names = list(accumulate(module.split("."), "{}.{}".format))
        self.specs: dict[str, ModuleSpec] = {}
        self.is_own = False
        if not all(module.split(".")):
            return
        outermost, *inner = self.names
        own = _find_in([str(Path.cwd())], outermost)
        installed = None if own and own.loader else _find_installed(outermost)
        self.is_own = installed is None
        spec = installed or own
        while spec is not None:
            self.specs[spec.name] = spec
            spec = _find_in(spec.submodule_search_locations or (), inner.pop(0)) if inner else None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self.names and fullname not in self.specs:
            raise ModuleNotFoundError(f"No module named '{fullname}'", name=fullname)
        return self.specs.get(fullname)


def _find_in(folders: Iterable[str], name: str) -> ModuleSpec | None:
    """Return the first module of this name in folders, else their folders of this name as one package."""
    package, locations = ModuleSpec(name, None, is_package=True), list[str]()
    for folder in folders:
        spec = FileFinder(folder, (_SourceLoader, SOURCE_SUFFIXES)).find_spec(name)
        if spec and spec.loader:
            return spec
        locations += (spec and spec.submodule_search_locations) or []
    package.submodule_search_locations = locations
    return package if locations else None


def _find_installed(name: str) -> ModuleSpec | None:
    """Return a module that is on the path of Python, if it is a source file or a folder."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _SourceLoader(name, spec.loader.path)
        if spec and isinstance(spec.loader, _SourceLoader | None):
            return spec
    return None


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
    folder, found = Path.cwd(), _FoundModules(name)
    # The current folder is not on the path when `ch` runs.
    neighbours = _first(sys.path, str(folder)) if found.is_own else nullcontext()
    with neighbours, _first(sys.meta_path, found), _reporting_lines(name, folder):
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
def _first(places: list[Any], place: object) -> Iterator[None]:
    """Let Python look in one more place first, such as the folder of a file for what it imports."""
    places.insert(0, place)
    try:
        yield
    finally:
        places.remove(place)
