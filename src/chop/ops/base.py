"""A row of the op table: the name of an op, its spellings in PyTorch, its operands and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

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


@dataclass(frozen=True)
class Call:
    """A call of an op, as far as its cost depends on it: shapes and attributes, but no values."""

    operands: Mapping[str, Shape]
    results: tuple[Shape, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Count:
    """The number of operations of one call."""

    macs: int = 0
    """Multiply-accumulates: multiplications of two operands, each with an addition."""
    multiplies: int = 0
    """Multiplications, divisions and exponentials."""
    adds: int = 0
    """Additions, subtractions and comparisons."""
    products: tuple[tuple[str, str, int], ...] = ()
    """(operand, operand, MACs) per multiplied pair; empty: all MACs are `data_in_0` times the weight."""


@dataclass(frozen=True)
class Op:
    """A row of the op table."""

    name: str
    mase_type: MaseType
    operands: tuple[Operand, ...] = ()
    modules: tuple[type[nn.Module], ...] = ()
    functions: tuple[Callable[..., Any], ...] = ()
    methods: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()
    """Further operators of ATen. Those with the name of one of its functions or methods are spellings anyway."""
    overload: str = ""
    """The overload of ATen that this row is for, such as `aten.linear.default`; empty: all other spellings."""
    attributes: Mapping[str, int] = field(default_factory=dict)
    """Attributes that `count` needs, with their position among the arguments of the function."""
    count: Callable[[Call], Count] = lambda _: Count()
    batch_from_ndim: int | None = None
    """If the input has at least this many dimensions, the first one is a batch whose rows are independent."""
    compute: Callable[..., Tensor] | None = None
    """Computes a layer's result from (layer, data, parameters in the order of operands); None: its forward."""

    @property
    def quantizable(self) -> bool:
        """Whether an operand can have a format."""
        return any(operand.role is not None for operand in self.operands)

    @property
    def parameters(self) -> tuple[Operand, ...]:
        """The operands that are parameters of a module."""
        return tuple(operand for operand in self.operands if operand.name in ("weight", "bias"))

    def called_as(self, overload: OpOverload) -> Op:
        """Return the row for calls of an overload of ATen: operands and attributes are found by their names."""
        positions = {argument.name: i for i, argument in enumerate(overload._schema.arguments)}

        def names(operand: Operand) -> tuple[str, ...]:
            first = ("self",) if operand.position == 0 else ()
            return tuple(name for name in (*operand.keywords, *first) if name in positions)

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
                new_args[operand.position] = changed(operand, new_args[operand.position])
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
            return {name: getattr(module, name) for name in self.attributes}
        found = {name: args[at] for name, at in self.attributes.items() if at < len(args)}
        return found | {name: kwargs[name] for name in self.attributes if name in kwargs}


def numel(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    product = 1
    for n in shape:
        product *= n
    return product
