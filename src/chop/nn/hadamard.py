"""The Hadamard layer: a fixed rotation that spreads outliers over all elements."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

MAX_PALEY_ORDER = 256
"""Up to this order, Hadamard matrices are found by Paley's construction."""


class Hadamard(nn.Module):
    """Multiplies rows by a Hadamard matrix with random signs, which is orthogonal; `size` is their length."""

    base: Tensor
    signs: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        factors = _factors(block_size(size))
        assert factors is not None, "there is one of order 1"
        self.num_doublings, base = factors
        self.register_buffer("base", base.float(), persistent=False)
        self.register_buffer("signs", _signs(size).float(), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        x = input * self.signs.to(input.dtype)
        x = x.unflatten(-1, (-1, 2**self.num_doublings, len(self.base))) @ self.base.to(input.dtype)
        for half in (2**i for i in range(self.num_doublings)):
            low, high = x.unflatten(-2, (-1, 2, half)).unbind(-3)
            x = torch.stack((low + high, low - high), -3).flatten(-4, -2)
        result: Tensor = x.flatten(-3) * block_size(self.size) ** -0.5
        return result

    def extra_repr(self) -> str:
        return f"size={self.size}"


@cache
def block_size(size: int) -> int:
    """Return the size of the blocks along the diagonal: as large as possible, if there is no Hadamard matrix."""
    return next(n for n in range(size, 0, -1) if size % n == 0 and _factors(n) is not None)


@cache
def rotation(size: int) -> Tensor:
    """Return the matrix of a layer in float64: Hadamard matrices whose rows have pseudo-random signs."""
    block = block_size(size)
    factors = _factors(block)
    assert factors is not None, "there is one of order 1"
    num_doublings, matrix = factors
    for _ in range(num_doublings):
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    blocks: Tensor = torch.block_diag(*[matrix / block**0.5] * (size // block))
    return blocks * _signs(size).unsqueeze(1)


@cache
def _factors(order: int) -> tuple[int, Tensor] | None:
    """Return a Hadamard matrix as a matrix that is doubled so often (Sylvester); None if there is none.

    The matrix is one by Paley's construction, or [[1]].
    """
    if order == 1:
        return 0, torch.ones(1, 1, dtype=torch.float64)
    if order <= MAX_PALEY_ORDER and (matrix := _paley(order)) is not None:
        return 0, matrix
    half = _factors(order // 2) if order % 2 == 0 else None
    return None if half is None else (half[0] + 1, half[1])


def _paley(order: int) -> Tensor | None:
    """Return the Hadamard matrix of a prime q: of order q + 1 if q is 3 modulo 4, of order 2 q + 2 if it is 1."""
    for prime, remainder in ((order - 1, 3), (order // 2 - 1, 1)):
        if prime % 4 == remainder and _is_prime(prime) and order % 4 == 0:
            core = _conference(prime, symmetric=remainder == 1)
            one = torch.eye(prime + 1, dtype=torch.float64)
            if remainder == 3:
                return core + one
            return torch.kron(core, torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double()) + torch.kron(
                one, torch.tensor([[1.0, -1.0], [-1.0, -1.0]]).double()
            )
    return None


def _conference(prime: int, symmetric: bool) -> Tensor:
    """Return the matrix of the quadratic residues of the differences of indices, with a border of ones."""
    squares = {i * i % prime for i in range(1, prime)}
    residues = torch.tensor([0.0] + [1.0 if i in squares else -1.0 for i in range(1, prime)], dtype=torch.float64)
    indices = torch.arange(prime)
    matrix = torch.ones(prime + 1, prime + 1, dtype=torch.float64)
    matrix[0, 0] = 0.0
    matrix[1:, 1:] = residues[(indices.unsqueeze(1) - indices) % prime]
    if not symmetric:
        matrix[1:, 0] = -1.0
    return matrix


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % i for i in range(2, int(n**0.5) + 1))


def _signs(size: int) -> Tensor:
    """Return pseudo-random signs, the same everywhere: those of a linear congruential generator."""
    state, signs = size, []
    for _ in range(size):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        signs.append(1.0 if state >> 63 else -1.0)
    return torch.tensor(signs, dtype=torch.float64)
