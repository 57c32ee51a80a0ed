"""The device that a run computes on."""

from __future__ import annotations

import logging
import os

import torch

from chop.registry import closest

logger = logging.getLogger(__name__)

ALIASES = {"gpu": "cuda"}
RANKS = ("LOCAL_RANK", "SLURM_LOCALID")
"""Environment variables with the number of a process on its machine, as torchrun and SLURM set them."""
WORKER = "CHOP_WORKER"
"""Environment variable with the number of a worker process of a search, a sweep or a grid."""


def pick_device(requested: str, rank: int | None = None) -> torch.device:
    """Return the device of an accelerator, which `auto` chooses; the CPU, with a warning, if it is missing.

    Process `rank` of a machine has the device of this number, modulo the number of devices; by default that is its
    number among the processes of torchrun or SLURM, and among the workers of a command.
    """
    present = torch.accelerator.current_accelerator(check_available=True)
    if requested == "auto":
        kind = "cpu" if present is None else present.type
    else:
        kind = _checked(requested)
        if kind != "cpu" and (present is None or kind != present.type):
            logger.warning("accelerator '%s' is not available on this machine: running on the CPU", requested)
            kind = "cpu"
    if kind == "cpu":
        return torch.device("cpu")
    if rank is None:
        local = next((int(os.environ[name]) for name in RANKS if os.environ.get(name, "").isdigit()), 0)
        rank = local + int(os.environ.get(WORKER, "0"))
    return torch.device(kind, rank % torch.accelerator.device_count())


def _checked(requested: str) -> str:
    """Return the name that torch has for an accelerator; raise ValueError if it has none."""
    try:
        device = torch.device(ALIASES.get(requested, requested))
    except RuntimeError:
        known = ("auto", "cpu", "gpu", "mps", "xpu")
        raise ValueError(f"unknown accelerator '{requested}'; {closest(requested, known)}") from None
    return device.type
