"""The optimizers and learning rate schedules that `ch train` offers: one line per name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

OPTIMIZERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "adam": ("Adam", {}),
    "sgd": ("SGD", {"momentum": 0.9}),
    "adamw": ("AdamW", {}),
}
"""For each name the class in `torch.optim`, and its arguments besides the learning rate and the weight decay."""

SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "none": lambda done: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "step": lambda done: 0.1 ** ((done >= 0.5) + (done >= 0.75)),
}
"""For each name the factor of the learning rate after a share of all steps, for example 0.5 halfway with `linear`.

A schedule depends on nothing but the step, so that a resumed training needs no state of it.
"""

if TYPE_CHECKING:
    OptimizerName = str
    ScheduleName = str
else:  # the choices that the help lists and that options are checked against
    OptimizerName = Literal[tuple(OPTIMIZERS)]
    ScheduleName = Literal[tuple(SCHEDULES)]
