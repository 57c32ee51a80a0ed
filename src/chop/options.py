"""Reads a dict written by a user into a frozen dataclass and reports every error in it."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import get_annotations
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from chop.registry import closest

T = TypeVar("T")
_hints: dict[type[object], dict[str, Any]] = {}
_single_hints: dict[tuple[type[object], str], Any] = {}


def read_options(cls: type[T], mapping: Mapping[str, object] | T | None, where: str) -> T:
    """Return a `cls` with the values of `mapping`, which is not changed; error messages start with `where`."""
    if isinstance(mapping, cls):
        return mapping
    values = check_options(cls, cast("Mapping[str, object] | None", mapping), where)
    for field in _options(cls):
        if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}: '{field.name}' is required")
    try:
        return cls(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def check_options(cls: type[object], mapping: Mapping[str, object] | None, where: str) -> dict[str, Any]:
    """Return the entries of `mapping`, checked against the names and types of the fields of `cls`.

    No field is required. An alias of a field (`metadata["aliases"]`) is accepted instead of its name.
    """
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        raise ValueError(f"{where}: must be a dict of options, got {_show(mapping)}")
    names = {alias: field.name for field in _options(cls) for alias in (field.name, *aliases(field))}
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in names:
            raise ValueError(f"{where}: unknown key '{key}'; {closest(key, names)}")
        name = names[key]
        if name in values:
            raise ValueError(f"{where}: '{name}' is given twice, as {_spellings(mapping, names, name)}")
        values[name] = _read(value, _type_hint(cls, name), where, str(key))
    return values


def type_hints(cls: type[object]) -> dict[str, Any]:
    """Return the types of the fields of `cls`, from a cache after the first call."""
    if cls not in _hints:
        _hints[cls] = get_type_hints(cls)
    return _hints[cls]


def _type_hint(cls: type[object], name: str) -> Any:
    """Return the type of one field; evaluating those of all fields takes several milliseconds."""
    if (cls, name) not in _single_hints:
        owner = next(base for base in cls.__mro__ if name in get_annotations(base))
        alone = types.SimpleNamespace(__annotations__={name: get_annotations(owner)[name]})
        hints = get_type_hints(alone, vars(sys.modules[owner.__module__]), dict(vars(owner)))
        _single_hints[cls, name] = hints[name]
    return _single_hints[cls, name]


def aliases(field: Field[Any]) -> tuple[str, ...]:
    """Return the other names under which a field can be given."""
    return tuple(field.metadata.get("aliases", ()))


def _options(cls: type[object]) -> list[Field[Any]]:
    return [field for field in fields(cast(Any, cls)) if field.init]


def _spellings(mapping: Mapping[str, object], names: dict[str, str], name: str) -> str:
    return " and ".join(f"'{key}'" for key in mapping if names.get(key) == name)


def _read(value: object, hint: object, where: str, name: str) -> object:
    """Convert `value` to the type `hint`: lists to tuples, ints to floats, dicts to dataclasses."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _read_union(value, hint, where, name)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
    elif origin is tuple or origin is list:
        if isinstance(value, list | tuple):
            return _read_items(value, hint, where, name)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        if isinstance(value, Mapping):
            return _read_table(value, arguments, where, name)
    elif is_dataclass(hint) and isinstance(value, Mapping):
        return read_options(cast("type[object]", hint), value, f"{where}: {name}")
    elif hint is Path and isinstance(value, str):
        return Path(value)
    elif hint is float:
        if _fits(value, int) or _fits(value, float):
            return _finite(cast(float, value), where, name)
    elif _fits(value, origin or hint):
        return value
    raise _MismatchError(value, hint, where, name)


def _finite(value: float, where: str, name: str) -> float:
    """Return a number as a float; NaN, infinities and integers that are too large are errors."""
    with suppress(OverflowError):
        if math.isfinite(number := float(value)):
            return number
    raise ValueError(f"{where}: '{name}' must be a finite number, got {_show(value)}")


def _fits(value: object, kind: object) -> bool:
    """Whether `value` is a `kind`; a bool does not count as a number, nor a string as a sequence."""
    if kind is Callable:
        return callable(value)
    if isinstance(value, bool):
        return kind in (bool, object)
    assert isinstance(kind, type), f"a field of type {kind} cannot be read from a dict"
    if isinstance(value, str) and kind is not str and issubclass(kind, Sequence):
        return False
    return isinstance(value, kind)


def _read_union(value: object, hint: object, where: str, name: str) -> object:
    if value is None and type(None) in get_args(hint):
        return None
    failures = []
    for option in get_args(hint):
        try:
            return _read(value, option, where, name)
        except ValueError as error:
            failures.append(error)
    others = [option for option in get_args(hint) if option is not type(None)]
    if isinstance(value, Mapping):
        others = [option for option in others if _takes_dicts(option)] or others
    if len(others) == 1 and isinstance(value, list | tuple | Mapping | float):
        raise failures[get_args(hint).index(others[0])]  # it names the wrong item, or says that NaN is not finite
    raise _MismatchError(value, hint, where, name)


def _takes_dicts(hint: object) -> bool:
    kind = get_origin(hint) or hint
    return isinstance(kind, type) and (issubclass(kind, Mapping) or is_dataclass(kind))


def _read_items(values: Sequence[object], hint: object, where: str, name: str) -> object:
    kinds: Sequence[Any] = get_args(hint)
    if get_origin(hint) is list or kinds[-1] is Ellipsis:
        kinds = [kinds[0]] * len(values)
    if len(kinds) != len(values):
        raise ValueError(f"{where}: '{name}' must have {len(kinds)} items, got {len(values)}")
    items = zip(values, kinds, strict=True)
    read = (_read(value, kind, where, f"{name}[{i}]") for i, (value, kind) in enumerate(items))
    return list(read) if get_origin(hint) is list else tuple(read)


def _read_table(table: Mapping[Any, object], kinds: Sequence[Any], where: str, name: str) -> object:
    key_kind, value_kind = kinds or (Any, Any)
    return {
        _read(key, key_kind, where, f"key of {name}"): _read(value, value_kind, where, f"{name}.{key}")
        for key, value in table.items()
    }


class _MismatchError(ValueError):
    """The error for a value of another type. Its message is made when it is read: showing a tensor takes long."""

    def __init__(self, value: object, hint: object, where: str, name: str) -> None:
        super().__init__(value, hint, where, name)

    def __str__(self) -> str:
        value, hint, where, name = self.args
        message = f"{where}: '{name}' must be {_describe(hint)}, got {_show(value)}"
        nearest = closest(value, _words(hint))
        return f"{message}; {nearest}" if nearest.startswith("did you mean") else message


def _words(hint: object) -> list[str]:
    """Return the strings that a type allows, for example `["pt", "pl"]` for `Literal["pt", "pl"] | None`."""
    if get_origin(hint) is Literal:
        return [choice for choice in get_args(hint) if isinstance(choice, str)]
    return [word for option in get_args(hint) for word in _words(option)]


def _describe(hint: object) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(repr(choice) for choice in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(option) for option in arguments)
    if origin is tuple or origin is list:
        return f"a list of {_describe(arguments[0])}"
    if hint is type(None) or hint is None:
        return "None"
    kind = origin or hint
    if _takes_dicts(hint):
        return "a dict"
    return str(getattr(kind, "__name__", kind))


def _show(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply; an integer with too many digits
        text = "a value that is too long to show"
    kind = type(value).__name__
    return f"a {kind}" if "\n" in text else f"{text if len(text) <= 60 else text[:57] + '...'} ({kind})"
