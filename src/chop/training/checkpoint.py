"""Checkpoints: the weights and the state of a training run, in files that are written atomically."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from chop.files import atomic_path, check_regular, write_bytes
from chop.ir.graph.device import CPU, moved
from chop.runs.weights import PREFIX


def model_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights under the names that Lightning's Trainer uses and `load_model` reads."""
    return {PREFIX + key: value.detach() for key, value in model.state_dict().items()}


def load_model_state(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load what `model_state` returned."""
    model.load_state_dict({key.removeprefix(PREFIX): value for key, value in state.items()})


def write_checkpoint(content: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint atomically: a kill or a full disk leaves the previous one intact."""
    buffer = io.BytesIO()
    torch.save(moved(dict(content), CPU), buffer)
    try:
        write_bytes(path, buffer.getbuffer(), sync=True)
    except OSError as error:
        raise OSError(
            f"cannot save {path}: {error.strerror or error}; the previous checkpoint is intact"
        ) from error


def keep_as_best(last: Path, best: Path) -> None:
    """Make `best` a hard link to the current file `last`, so that its content is not written twice."""
    try:
        with atomic_path(best) as temporary:
            temporary.unlink(missing_ok=True)
            os.link(last, temporary)
    except OSError:  # the file system has no hard links
        write_checkpoint(read_checkpoint(last), best)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of `ch train`, which holds tensors and plain values only."""
    check_regular(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ValueError(f"there is nothing to resume: {path} does not exist") from None
    except Exception as error:  # a corrupt file makes torch raise errors of many kinds
        raise ValueError(f"{path} is corrupt: {type(error).__name__}: {error}") from error
    if not isinstance(content, dict) or "optimizer" not in content or "step" not in content:
        raise ValueError(f"{path} cannot be resumed from: it was not written by ch train")
    return content


def seed_all(seed: int) -> None:
    """Seed the global random generators of Python, NumPy and PyTorch, on all devices."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Return the states of all global random generators, in tensors and plain values."""
    _, keys, position, has_gauss, gauss = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (torch.from_numpy(np.asarray(keys).astype(np.int64)), int(position), int(has_gauss), float(gauss)),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restore what `random_state` returned."""
    keys, *rest = state["numpy"]
    random.setstate(state["python"])
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
