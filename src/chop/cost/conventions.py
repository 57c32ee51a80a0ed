"""The conventions under which operations and bit operations are counted, each by its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from chop.formats import Format
from chop.ops import Count
from chop.registry import Registry, closest

Number = int | float


@dataclass(frozen=True)
class Product:
    """MACs of one call that multiply the same two operands."""

    macs: int
    left: Format
    right: Format
    terms: int
    """Products that each sum adds up."""
    used_bits: Callable[[], tuple[Fraction, Fraction]]
    """Bits of either factor that are ever used, on average; worked out when called."""

    @property
    def bits(self) -> tuple[Number, Number]:
        return bits_of(self.left), bits_of(self.right)


@dataclass(frozen=True)
class Work:
    """The operations of one call, with the formats of what they work on."""

    count: Count
    products: tuple[Product, ...]
    data: Format
    """Of the first data operand."""
    other: Format
    """Of the second factor of the multiplications that are no MACs."""
    bias: Format | None


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


def whole(value: Number) -> Number:
    """An int where the value is one, so that large counts stay exact."""
    return int(value) if value == int(value) else value


def bits_of(number_format: Format) -> Number:
    """Bits that an element takes, an int where they are whole."""
    return whole(number_format.bits)


def _mase_bitops(work: Work) -> Number:
    data, other = bits_of(work.data), bits_of(work.other)
    bias = 0 if work.bias is None else bits_of(work.bias)
    total: Number = work.count.multiplies * data * other + work.count.adds * data
    for product in work.products:
        left, right = product.bits
        total += product.macs * (left * right + max(bias, left))
    return total


def _bops(work: Work) -> Number:
    return sum(product.macs * math.prod(product.bits) for product in work.products)


def _uniq_bitops(work: Work) -> Number:
    """UNIQ (Baskin et al., ACM TOCS 37, 2021, arXiv:1804.10969).

    A layer of n inputs, m outputs and k x k kernels takes m n k^2 (b_a b_w + b_a + b_w + log2(n k^2)) for each
    position of its output: a multiplication, and an addition as wide as the sum of n k^2 products can become. In
    groups, n is the inputs of one group.
    """
    total: Number = 0
    for product in work.products:
        left, right = product.bits
        total += product.macs * (left * right + left + right + math.log2(product.terms))
    return total


def _effective_bitops(work: Work) -> Number:
    """HGQ (Sun et al., 2024, arXiv:2405.00645): the sum of b_i b_j over all multiplications.

    Additions are in it already: a factor of one bit costs as much as adding the other. Which bits are used is
    told in `chop.cost.used_bits`.
    """
    total = Fraction(0)
    for product in work.products:
        left, right = product.used_bits()
        total += product.macs * left * right
    return int(total) if total.denominator == 1 else float(total)


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
CONVENTIONS.add("bops", Convention("MACs only, b_in x b_w each, as in QONNX", bitops=_bops))
CONVENTIONS.add(
    "uniq",
    Convention("MACs only, b_in x b_w + b_in + b_w + log2(products a sum) each, as in UNIQ", bitops=_uniq_bitops),
)
CONVENTIONS.add(
    "ebops",
    Convention(
        "MACs only, the bits of both factors that are used: no signs, no zeros at the ends of a weight, as in HGQ",
        bitops=_effective_bitops,
    ),
)
