"""Training of the weights of a graph whose widths are learned and stay as they are."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.tasks.base import first_tensor

Arguments = Callable[[Tensor], dict[str, Tensor]]
"""Returns the arguments of a model for rows."""


def finetune(
    graph: MaseGraph,
    arguments: Arguments,
    rows: Rows,
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> None:
    """Train the weights in place, with a learning rate that falls to zero along half a cosine."""
    random = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(graph.model.parameters(), learning_rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = learning_rate * (1 + math.cos(math.pi * step / steps)) / 2
        chosen = torch.randint(len(rows.labels), (batch_size,), generator=random)
        with torch.enable_grad():
            scores = first_tensor(graph.model(**arguments(rows.features[chosen])))
            F.cross_entropy(scores, rows.labels[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()
