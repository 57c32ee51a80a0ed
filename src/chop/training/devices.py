"""Where to run: Lightning Fabric for the device, the precision and several processes."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import torch

from chop.config import ActionConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)

PRECISIONS = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed"}  # short names of Fabric's


def pick_accelerator(wanted: str) -> str:
    """The device to run on; the CPU, with a warning, where the one wanted is not there."""
    found = {"gpu": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return next((name for name, there in found.items() if there), "cpu")
    if not found.get(wanted, True):
        logger.warning("accelerator '%s' is not on this machine: running on the cpu", wanted)
        return "cpu"
    return wanted


def pick_device(wanted: str) -> torch.device:
    return torch.device({"gpu": "cuda"}.get(name := pick_accelerator(wanted), name))


def make_fabric(config: ActionConfig, single: bool = False) -> Fabric:
    """Fabric as the configuration wants it, or for a `single` process; `launch()` starts the others."""
    if config.strategy == "fsdp":
        raise ValueError("strategy 'fsdp' cannot be used yet: checkpoints of split models are not; use 'ddp'")
    accelerator = pick_accelerator(config.accelerator)
    precision = PRECISIONS.get(config.trainer_precision, config.trainer_precision)
    if accelerator == "cpu" and precision in ("16-mixed", "16-true"):
        raise ValueError(f"trainer_precision '{config.trainer_precision}' needs a gpu; on the cpu use bf16-mixed")
    from lightning_fabric import Fabric  # costs as much as importing torch

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it tells of each process that it starts
    return Fabric(
        accelerator={"gpu": "cuda"}.get(accelerator, accelerator),
        strategy="auto" if single else config.strategy,
        devices=1 if single else config.num_devices,
        num_nodes=1 if single else config.nodes,
        precision=precision,  # type: ignore[arg-type]  # one of the names that Fabric lists
    )


def is_main_process() -> bool:
    """False in the further processes that Fabric, torchrun or SLURM start: they do not speak."""
    ranks = (os.environ.get(name, "0") for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))
    return all(rank == "0" for rank in ranks)
