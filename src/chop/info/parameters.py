"""What can be set of a thing: name, type, default and help of each of its parameters."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
import types
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin

from chop.info.page import Table
from chop.options import type_hints

HEADERS = ("name", "type", "default", "meaning", "worth trying")


def field_table(cls: type[Any]) -> Table:
    """The fields of a dataclass that can be given."""
    hints, helps = type_hints(cls), attribute_docs(cls)
    return Table(
        HEADERS,
        [
            (
                field.name,
                type_name(hints[field.name]),
                _default(field),
                field.metadata.get("help", helps.get(field.name, "")),
                field.metadata.get("search", ()),
            )
            for field in sorted(fields(cls), key=lambda field: bool(field.kw_only))  # those in common come last
            if field.init
        ],
    )


def parameter_table(make: Callable[..., Any], left_out: tuple[str, ...] = ()) -> Table:
    """What a dataclass or a function can be called with."""
    if not is_dataclass(make):
        return signature_table(make, left_out)
    table = field_table(cast("type[Any]", make))
    return Table(table.headers, [row for row in table.rows if row[0] not in left_out])


def signature_table(function: Callable[..., Any], left_out: tuple[str, ...] = ()) -> Table:
    """The parameters of a function, or of the constructor of a class."""
    parameters = inspect.signature(function).parameters.values()
    rows = [
        (p.name, "" if p.annotation is p.empty else type_name(p.annotation), _shown(p.default), "", ())
        for p in parameters
        if p.name not in left_out and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    return Table(HEADERS, rows)


def attribute_docs(cls: type[Any]) -> dict[str, str]:
    """What the source of a class says of each field: the comment behind it, or the string below."""
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
    """A type as one writes it, without the modules that it comes from."""
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


def _class_source(cls: type[Any]) -> tuple[list[str], list[ast.stmt]]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # made on the fly, or in C: there is no source to look into
        return [], []
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef), f"the source of {cls} is not that of a class"
    return source.splitlines(), definition.body


def _default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return _shown(field.default_factory())
    return _shown(field.default)


def _shown(default: object) -> str:
    if default is MISSING or default is inspect.Parameter.empty:
        return "needed"
    return str(default) if isinstance(default, bool | int | float) or default is None else repr(default)
