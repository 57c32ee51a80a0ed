"""Numbers on which formats are compared with other libraries."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def hard_numbers() -> Tensor:
    """Return all finite float32 values with 7 mantissa bits, and values with random bits."""
    tops = torch.arange(2**16, dtype=torch.int64) << 16
    noise = torch.randint(0, 2**32, (2**16,), dtype=torch.int64)
    patterns = torch.cat([tops, tops + 1, tops - 1, noise])
    x = torch.from_numpy(patterns.numpy().astype(np.uint32).view(np.float32))
    return x[x.isfinite()]
