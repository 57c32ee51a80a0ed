"""Conventions for counting operations and bit operations, by name."""

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
    """The MACs of a call that multiply the same two operands."""

    macs: int
    left: Format
    right: Format
    terms: int
    """The number of products per sum."""
    used_bits: Callable[[], Fraction]
    """Returns the average product of the used bits of both factors (`chop.cost.used_bits`)."""

    @property
    def bits(self) -> tuple[Number, Number]:
        """Bits per element of both factors."""
        return bits_of(self.left), bits_of(self.right)


@dataclass(frozen=True)
class Work:
    """The operations of a call, with the formats of their operands."""

    count: Count
    products: tuple[Product, ...]
    data: Format
    """The format of the first data operand."""
    other: Format
    """The format of the second factor of multiplications that are not MACs."""
    bias: Format | None


@dataclass(frozen=True)
class Convention:
    """A way to count operations, bit operations or both; None if it does not define a count."""

    summary: str
    operations: Callable[[Count], int] | None = None
    bitops: Callable[[Work], Number] | None = None


CONVENTIONS: Registry[Convention] = Registry("convention")


def operations_formula(name: str) -> Callable[[Count], int]:
    """Return the function of a convention that counts operations."""
    found = CONVENTIONS[name].operations
    if found is None:
        known = [key for key, convention in CONVENTIONS.items() if convention.operations]
        raise ValueError(f"convention '{name}' counts bit operations only; {closest(name, known)}")
    return found


def bitops_formula(name: str) -> Callable[[Work], Number]:
    """Return the function of a convention that counts bit operations."""
    found = CONVENTIONS[name].bitops
    if found is None:
        known = [key for key, convention in CONVENTIONS.items() if convention.bitops]
        raise ValueError(f"convention '{name}' does not count bit operations; {closest(name, known)}")
    return found


def exact_int(value: Number) -> Number:
    """Return the value as an int if it is an integer, so that large counts stay exact."""
    return int(value) if value == int(value) else value


def bits_of(number_format: Format) -> Number:
    """Return the bits per element of a format, as an int if possible."""
    return exact_int(number_format.bits)


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
    """Count bit operations as in UNIQ (Baskin et al., ACM TOCS 37, 2021, arXiv:1804.10969).

    A layer with n inputs, m outputs and k x k kernels takes m n k^2 (b_a b_w + b_a + b_w + log2(n k^2)) per output
    position: multiplications, and additions with the width of a sum of n k^2 products. With groups, n is the
    number of inputs per group.
    """
    total: Number = 0
    for product in work.products:
        left, right = product.bits
        total += product.macs * (left * right + left + right + math.log2(product.terms))
    return total


def _effective_bitops(work: Work) -> Number:
    """Count bit operations as in HGQ (Sun et al., 2024, arXiv:2405.00645): the sum of b_i b_j over all MACs.

    This includes additions: multiplying by a 1-bit factor costs as much as adding the other factor.
    `chop.cost.used_bits` defines b_i and b_j.
    """
    total = Fraction(0)
    for product in work.products:
        total += product.macs * product.used_bits()
    return int(total) if total.denominator == 1 else float(total)


CONVENTIONS.add(
    "mase",
    Convention(
        "every operation counts 1, also a MAC; bit operations: b_in x b_w + max(b_bias, b_in) per MAC, "
        "b_in x b_in per multiplication, b_in per addition",
        operations=lambda count: count.macs + count.multiplies + count.adds,
        bitops=_mase_bitops,
    ),
)
CONVENTIONS.add("macs", Convention("MACs only", operations=lambda count: count.macs))
CONVENTIONS.add(
    "flops",
    Convention(
        "a MAC counts 2, every other operation 1",
        operations=lambda count: 2 * count.macs + count.multiplies + count.adds,
    ),
)
CONVENTIONS.add("bops", Convention("MACs only: b_in x b_w bit operations each, as in QONNX", bitops=_bops))
CONVENTIONS.add(
    "uniq",
    Convention("MACs only: b_in x b_w + b_in + b_w + log2(products per sum) each, as in UNIQ", bitops=_uniq_bitops),
)
CONVENTIONS.add(
    "ebops",
    Convention(
        "MACs only: product of the used bits, without signs and without zeros at the ends of a weight, as in HGQ",
        bitops=_effective_bitops,
    ),
)
