"""The op table: the spellings of each op in PyTorch, and its operands."""

from __future__ import annotations

from chop.info.page import Kind, Listing, Page
from chop.ops import OPS, Op, qualified_name


def op_table() -> Listing:
    """Return the table of all ops."""
    rows = []
    for op in OPS.values():
        spellings = [*_modules(op), *_functions(op), *(f".{method}()" for method in op.methods)]
        rows.append((op.name, op.mase_type, _roles(op), spellings))
    return Listing(("name", "mase type", "quantised operands", "spellings"), rows)


def op_page(name: str) -> Page:
    """Return the page of an op."""
    op = OPS[name]
    text = "" if op.quantizable else "This op is never quantised."
    if op.composite:
        text = "This layer is kept whole: its inputs and all of its parameters are quantised, inner values are not."
    return Page(
        title=f"op {name}",
        text=text,
        facts={
            "mase type": op.mase_type,
            "modules": _modules(op),
            "functions": _functions(op),
            "methods": [f".{method}()" for method in op.methods],
            "settings": list(op.attributes),
        },
        tables={"operands": _operands(op)},
    )


def _operands(op: Op) -> Listing:
    headers = ("name", "role", "reduced along", "channels along", "keywords", "variadic")
    rows = [
        (
            each.name,
            each.role or "never quantised",
            str(each.reduce_dim) if each.role else None,
            None if each.channel_dim is None else str(each.channel_dim),
            each.keywords,
            each.variadic or None,
        )
        for each in op.operands
    ]
    return Listing(headers, rows)


def _roles(op: Op) -> list[str]:
    of_parameters = ("weight", "bias") if op.composite else ()
    return list(dict.fromkeys((*(each.role for each in op.operands if each.role), *of_parameters)))


def _modules(op: Op) -> list[str]:
    own = [f"nn.{cls.__name__}" if cls.__module__.startswith("torch.nn") else cls.__name__ for cls in op.modules]
    return [*own, *op.foreign_modules]


def _functions(op: Op) -> list[str]:
    names = [qualified_name(function) for function in op.functions]
    for long, short in (("torch.nn.functional.", "F."), ("torch._C._nn.", "F."), ("_operator.", "operator.")):
        names = [name.replace(long, short) for name in names]
    return [*dict.fromkeys(names), *(f"aten.{name}" for name in op.aten)]


KIND = Kind(op_table, op_page)
