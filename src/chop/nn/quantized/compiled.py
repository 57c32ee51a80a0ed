"""Rounding by torch.compile: one kernel instead of the dozen that a format launches off the CPU."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.kernels.run import is_plain
from chop.formats.parts.gradients import with_gradient_of

logger = logging.getLogger(__name__)

_failed: set[Format] = set()
"""Formats for which the compiler failed; they are rounded without it."""


def round_compiled(x: Tensor, number_format: Format, scale: Tensor | None) -> Tensor:
    """Return `number_format(x, scale)` by a compiled function; without it, with one warning, if the compiler fails.

    Not compiled are formats that round at random, because a compiler has random numbers of its own, and steps
    that take part in training.
    """
    if not (number_format.rounds and number_format.is_repeatable and is_plain(x)) or number_format in _failed:
        return number_format(x, scale)
    trains = torch.is_grad_enabled() and (x.requires_grad or (scale is not None and scale.requires_grad))
    if trains and scale is not None:
        return number_format(x, scale)
    try:
        with torch.no_grad():
            y = _compiled(number_format, x.dim())(x.detach(), None if scale is None else scale.detach())
        return with_gradient_of(x, y) if trains else y
    except Exception as error:  # noqa: BLE001  # each compiler has its own errors
        y = number_format(x, scale)  # an error of the format itself is raised here
        if not _failed:
            reason = " ".join((str(error).strip() or type(error).__name__).splitlines()[:2])
            logger.warning(
                "torch.compile cannot compile format '%s', which runs without it: %s", number_format, reason
            )
        _failed.add(number_format)
        return y


@cache
def _compiled(number_format: Format, num_dims: int) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Return the function for tensors with `num_dims`, which is compiled for the first size, then for all sizes."""

    def rounded(x: Tensor, scale: Tensor | None) -> Tensor:
        return number_format(x, scale)

    # torch limits how often a code object is compiled, and compares what it reads: each format has one of its own.
    rounded.__code__ = rounded.__code__.replace(co_name=f"{number_format.name}_{num_dims}_{hash(number_format)}")
    return torch.compile(rounded, fullgraph=True)
