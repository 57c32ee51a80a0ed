"""The conventions under which operations and bit operations are counted, each by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chop.ops import Count
from chop.registry import Registry, closest

Number = int | float


@dataclass(frozen=True)
class Work:
    """The operations of one call, with the bits of what they work on."""

    count: Count
    products: tuple[tuple[int, Number, Number], ...]
    """MACs, and the bits of the two factors that they multiply."""
    data: Number
    """Bits of the first data operand."""
    other: Number
    """Bits of the second factor of the multiplications that are no MACs."""
    bias: Number
    """Bits of the bias; 0 without one."""


@dataclass(frozen=True)
class Convention:
    """What counts, and how much. None: the convention says nothing of such a count."""

    summary: str
    operations: Callable[[Count], int] | None = None
    bitops: Callable[[Work], Number] | None = None


CONVENTIONS: Registry[Convention] = Registry("convention")


def operations_formula(name: str) -> Callable[[Count], int]:
    found = CONVENTIONS[name].operations
    if found is None:
        known = [key for key, convention in CONVENTIONS.items() if convention.operations]
        raise ValueError(f"convention '{name}' counts bit operations only; {closest(name, known)}")
    return found


def bitops_formula(name: str) -> Callable[[Work], Number]:
    found = CONVENTIONS[name].bitops
    if found is None:
        known = [key for key, convention in CONVENTIONS.items() if convention.bitops]
        raise ValueError(f"convention '{name}' counts no bit operations; {closest(name, known)}")
    return found


def _mase_bitops(work: Work) -> Number:
    count = work.count
    macs = sum(macs * (left * right + max(work.bias, left)) for macs, left, right in work.products)
    return macs + count.multiplies * work.data * work.other + count.adds * work.data


CONVENTIONS.add(
    "mase",
    Convention(
        "every operation once, a MAC too; b_in x b_w + max(b_bias, b_in) bit operations a MAC, "
        "b_in x b_in a multiplication, b_in an addition",
        operations=lambda count: count.macs + count.multiplies + count.adds,
        bitops=_mase_bitops,
    ),
)
CONVENTIONS.add("macs", Convention("MACs only", operations=lambda count: count.macs))
CONVENTIONS.add(
    "flops",
    Convention(
        "two a MAC, all others once",
        operations=lambda count: 2 * count.macs + count.multiplies + count.adds,
    ),
)
CONVENTIONS.add(
    "bops",
    Convention(
        "MACs only, b_in x b_w each, as in QONNX",
        bitops=lambda work: sum(macs * left * right for macs, left, right in work.products),
    ),
)
