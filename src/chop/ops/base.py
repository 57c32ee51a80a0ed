"""A row of the op table: the name of an op, its spellings in PyTorch, its operands and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn
from torch._ops import OpOverload

Role = Literal["data_in", "weight", "bias"]
MaseType = Literal["module_related_func", "module", "builtin_func", "implicit_func"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """A tensor that goes into an op."""

    name: str
    role: Role | None
    """Which keys of a config apply to it; None: it is never quantised."""
    position: int
    """Its position among the arguments of the function, or of the module's forward."""
    keywords: tuple[str, ...] = ()
    """The names of its keyword argument."""
    reduce_dim: int = -1
    """The dimension that the op sums over, along which block formats run."""
    channel_dim: int | None = None
    """The dimension of the output channels, for formats with a scale per channel."""
    variadic: bool = False
    """Whether it is a list of tensors: `data_in_0`, `data_in_1`, ..."""
    starred: bool = False
    """Whether the tensors of the list may also be separate arguments, as in `einsum(equation, a, b)`."""


@dataclass(frozen=True)
class Call:
    """A call of an op, as far as its cost depends on it: shapes and attributes, but no values."""

    operands: Mapping[str, Shape]
    results: tuple[Shape, ...]
    attributes: Mapping[str, Any]


INNER = "computed inside"
"""The name of a factor that is not an operand: a value in float, such as the state of an LSTM."""


class Factors(NamedTuple):
    """The MACs of a call that multiply the same two operands."""

    left: str
    right: str
    macs: int
    terms: int
    """The number of products per sum."""


@dataclass(frozen=True)
class Count:
    """The number of operations of one call."""

    macs: int = 0
    """Multiply-accumulates: multiplications of two operands, each with an addition."""
    multiplies: int = 0
    """Multiplications, divisions and exponentials."""
    adds: int = 0
    """Additions, subtractions and comparisons."""
    products: tuple[Factors, ...] = ()
    """One entry per multiplied pair; empty: all MACs are `data_in_0` times the weight."""

    def __add__(self, other: Count) -> Count:
        return Count(
            self.macs + other.macs,
            self.multiplies + other.multiplies,
            self.adds + other.adds,
            (*self.products, *other.products),
        )


@dataclass(frozen=True)
class Op:
    """A row of the op table."""

    name: str
    mase_type: MaseType
    operands: tuple[Operand, ...] = ()
    modules: tuple[type[nn.Module], ...] = ()
    foreign_modules: tuple[str, ...] = ()
    """Layer classes of packages that are not imported, by their qualified names."""
    functions: tuple[Callable[..., Any], ...] = ()
    methods: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()
    """Further operators of ATen. Those with its name, or that of a function or method, are spellings anyway."""
    overload: str = ""
    """The overload of ATen that this row is for, such as `aten.linear.default`; empty: all other spellings."""
    attributes: Mapping[str, int | None] = field(default_factory=dict)
    """Attributes that `count` needs, with their position among the arguments of the function; None: layers only."""
    count: Callable[[Call], Count | None] = lambda _: Count()
    """Counts the operations of a call; None if they are unknown."""
    batch_from_ndim: int | None = None
    """If the input has at least this many dimensions, the first one is a batch whose rows are independent."""
    compute: Callable[..., Tensor] | None = None
    """Computes a layer's result from (layer, data, parameters in the order of operands); None: its forward."""
    composite: bool = False
    """Whether it is a layer of several ops, such as an LSTM, whose operands include all of its parameters."""

    @property
    def quantizable(self) -> bool:
        """Whether an operand can have a format."""
        return any(operand.role is not None for operand in self.operands)

    @property
    def passes_on(self) -> bool:
        """Whether the result consists of elements of the input, as those of `view` and of dropout in evaluation."""
        return self.mase_type == "implicit_func" or self.name == "dropout"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the operands that are parameters of a module; for a composite layer, see `parameters_of`."""
        return tuple(operand.name for operand in self.operands if operand.name in ("weight", "bias"))

    def parameters_of(self, module: nn.Module) -> dict[str, Tensor]:
        """Return the operands that are parameters of this module, without those that are None."""
        if self.composite:
            return {name: each for name, each in module.named_parameters() if not name.endswith("_scale")}
        found = {name: getattr(module, name) for name in self.parameters}
        return {name: parameter for name, parameter in found.items() if parameter is not None}

    def operand(self, name: str) -> Operand | None:
        """Return the operand of this name: of the row, of a list of tensors, or a composite layer's parameter."""
        for operand in self.operands:
            is_in_list = operand.variadic and name.startswith(operand.name.removesuffix("0"))
            if operand.name == name or is_in_list:
                return operand
        return _composite_parameter(name) if self.composite else None

    def called_as(self, overload: OpOverload) -> Op:
        """Return the row for calls of an overload of ATen: operands and attributes are found by their names."""
        positions = {argument.name: i for i, argument in enumerate(overload._schema.arguments)}

        def names(operand: Operand) -> tuple[str, ...]:
            known = (*operand.keywords, "self") if "input" in operand.keywords else operand.keywords
            return tuple(name for name in known if name in positions)

        return replace(
            self,
            operands=tuple(
                replace(operand, position=positions[found[0]], keywords=found)
                for operand in self.operands
                if (found := names(operand))
            ),
            attributes={name: positions[name] for name in self.attributes if name in positions},
            overload=str(overload),
        )

    def map_operands(
        self,
        change: Callable[[str, Operand, Any], Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call with each operand's value replaced by `change(name, operand, value)`."""
        new_args, new_kwargs = list(args), dict(kwargs)

        def changed(operand: Operand, value: Any) -> Any:
            if not operand.variadic:
                return change(operand.name, operand, value)
            if not isinstance(value, list | tuple):
                return value  # a node that makes the list: there are no tensors yet
            stem = operand.name.removesuffix("0")
            items = [change(f"{stem}{i}", operand, item) for i, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)

        for operand in self.operands:
            if operand.position < len(new_args):
                at, value = operand.position, new_args[operand.position]
                if operand.starred and not isinstance(value, list | tuple):
                    new_args[at:] = changed(operand, new_args[at:])
                else:
                    new_args[at] = changed(operand, value)
                continue
            for keyword in operand.keywords:
                if keyword in new_kwargs:
                    new_kwargs[keyword] = changed(operand, new_kwargs[keyword])
        return tuple(new_args), new_kwargs

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Operand, Any]]:
        """Yield name, operand and value of each operand among the arguments of a call."""
        found: list[tuple[str, Operand, Any]] = []

        def note(name: str, operand: Operand, value: Any) -> Any:
            found.append((name, operand, value))
            return value

        self.map_operands(note, args, kwargs)
        return iter(found)

    def settings(
        self, module: nn.Module | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the op's attributes in one call, from the module or else from the arguments."""
        if module is not None:
            return {name: value for name in self.attributes if (value := _attribute(module, name)) is not _MISSING}
        found = {name: args[at] for name, at in self.attributes.items() if at is not None and at < len(args)}
        return found | {name: kwargs[name] for name in self.attributes if name in kwargs}


_MISSING = object()


def _attribute(module: nn.Module, path: str) -> Any:
    """Return the attribute at a path such as `self_attn.num_heads`."""
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, _MISSING)
    return found


def _composite_parameter(name: str) -> Operand:
    if "bias" in name.rpartition(".")[2]:
        return Operand(name, "bias", -1)
    return Operand(name, "weight", -1, channel_dim=None if "norm" in name else 0)


def numel(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    product = 1
    for n in shape:
        product *= n
    return product
