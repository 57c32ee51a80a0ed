"""Finding a data set by what users write: a name, a data file, or a reference to a class."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path

from chop.dataset.base import DATASETS, Dataset, DatasetInfo, DatasetMaker
from chop.dataset.file_dataset import FileDataset
from chop.dataset.readers import KINDS
from chop.dataset.text_files import Sentences, TextTable, TextWindows
from chop.options import check_options
from chop.plugins import is_reference, load_maker
from chop.registry import Registry, closest

TEXT_FILES: Registry[DatasetMaker] = Registry(
    "task with files of text", {"cls": TextTable, "lm": TextWindows, "similarity": Sentences}
)
"""By task: the data set of a user's file, for models that take text."""


def resolve_dataset(spec: str, text_task: str | None = None) -> DatasetMaker:
    """Return the class or function for `spec`: a registered name, a path to a data file, or `data.py:Name`.

    `module.path:Name` works too. Name is a class with `info` and `load()`, or a function that returns an instance.
    `text_task` is the task of a model that takes text; a file is then read as text.
    """
    if spec in DATASETS:
        return DATASETS[spec]
    path = Path(spec).expanduser()
    if path.suffix.lower() in (*KINDS, ".txt") or path.is_file():
        return partial(FileDataset if text_task is None else TEXT_FILES[text_task], path)
    if is_reference(spec):
        return load_maker(spec, _is_dataset, "a class with info and load()")
    if len(path.parts) > 1:
        raise ValueError(f"data file '{spec}' does not exist")
    return DATASETS[spec]  # raises an error that suggests the nearest name


def _is_dataset(found: object) -> bool:
    return hasattr(found, "info") and callable(getattr(found, "load", None))


def dataset_from(
    spec: str,
    options: Mapping[str, object] | None = None,
    known_elsewhere: Iterable[str] = (),
    suggested: Mapping[str, object] | None = None,
    text_task: str | None = None,
) -> Dataset:
    """Return the data set `spec` with `options`; it must accept all of them except `seed`.

    `known_elsewhere` are options of the caller, which error messages may suggest. `suggested` are further options,
    for a data set that has them. `text_task` is the task of a model that takes text.
    """
    make = resolve_dataset(spec, text_task)
    parameters = inspect.signature(make).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    options = options or {}
    fitting = {name: value for name, value in (suggested or {}).items() if name in parameters}
    given = fitting | {name: value for name, value in options.items() if takes_all or name in parameters}
    for name in options:
        if name not in given and name != "seed":
            hint = closest(name, [*parameters, *known_elsewhere])
            raise ValueError(f"data set '{spec}' has no option '{name}'; {hint}")
    for name, p in parameters.items():
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and name not in given:
            raise ValueError(f"data set '{spec}' needs the option '{name}'")
    cls = make.func if isinstance(make, partial) else make
    if isinstance(cls, type) and is_dataclass(cls):  # which declares the types of its options
        given = check_options(cls, given, f"data set '{spec}'")
    dataset = make(**given)
    if not _is_dataset(dataset):
        raise ValueError(f"data set '{spec}' is of type {type(dataset).__name__}, without info and load()")
    return dataset


def get_dataset_info(name: str) -> DatasetInfo:
    """Return the description of the data set `name` without loading its rows; a user's data file is read."""
    return dataset_from(name).info
