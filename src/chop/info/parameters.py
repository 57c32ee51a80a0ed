"""Tables of parameters: name, type, default and help of each."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
import types
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from chop.info.page import Listing
from chop.options import type_hints

HEADERS = ("name", "type", "default", "meaning", "worth trying")


def field_table(cls: type[Any]) -> Listing:
    """Return the table of the fields that a dataclass can be constructed with."""
    hints, helps = type_hints(cls), attribute_docs(cls)
    return Listing(
        HEADERS,
        [
            (
                field.name,
                type_name(_resolved(hints[field.name], cls)),
                _default(field),
                field.metadata.get("help", helps.get(field.name, "")),
                [str(value) for value in field.metadata.get("search", ())],
            )
            for field in sorted(fields(cls), key=lambda field: bool(field.kw_only))  # the common ones come last
            if field.init
        ],
    )


def parameter_table(make: Callable[..., Any], left_out: str) -> Listing:
    """Return the table of the parameters of a dataclass, another class or a function, but one."""
    if is_dataclass(make):
        rows = field_table(cast("type[Any]", make)).rows
    else:
        rows = [
            (p.name, "" if p.annotation is p.empty else type_name(p.annotation), _shown(p.default), "", ())
            for p in inspect.signature(make).parameters.values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
    return Listing(HEADERS, [row for row in rows if row[0] != left_out])


def attribute_docs(cls: type[Any]) -> dict[str, str]:
    """Return the documentation of each field in the source of a class: the comment after it or the string below."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        lines, body = _class_source(base)
        for statement, below in itertools.pairwise([*body, ast.Pass()]):
            match statement, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
                case ast.AnnAssign(target=ast.Name(id=name)), _:
                    found[name] = lines[(statement.end_lineno or statement.lineno) - 1].partition("  # ")[2]
    return found


def type_name(hint: object) -> str:
    """Return a type as in source code, without module names."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(repr(choice) for choice in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join(type_name(each) for each in arguments)
    if arguments:
        return f"{type_name(origin)}[{', '.join(type_name(each) for each in arguments)}]"
    if isinstance(hint, list):  # the arguments of a Callable
        return f"[{', '.join(type_name(each) for each in hint)}]"
    if isinstance(hint, type) or hint is Any:
        return "None" if hint is type(None) else str(hint.__name__)
    return "..." if hint is Ellipsis else str(hint)


def _resolved(hint: Any, cls: type[Any]) -> Any:
    """Replace type variables by their values: `T | None` in a subclass of `ByNode[QuantConfig]`."""
    values: dict[Any, Any] = {}
    for base in (base for each in cls.__mro__ for base in each.__dict__.get("__orig_bases__", ())):
        values |= zip(getattr(get_origin(base), "__parameters__", ()), get_args(base), strict=False)
    if isinstance(hint, TypeVar):
        return values.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(values.get(each, each) for each in variables)] if variables else hint


def _class_source(cls: type[Any]) -> tuple[list[str], list[ast.stmt]]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # defined at run time or in C: no source
        return [], []
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef), f"the source of {cls} is not a class definition"
    return source.splitlines(), definition.body


def _default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return _shown(field.default_factory())
    return _shown(field.default)


def _shown(default: object) -> str:
    if default is MISSING or default is inspect.Parameter.empty:
        return "required"
    return str(default) if isinstance(default, bool | int | float) or default is None else repr(default)
