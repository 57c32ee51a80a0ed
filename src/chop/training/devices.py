"""The device, the floating-point precision and the processes of a run, with Lightning Fabric."""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from chop.config import ActionConfig
from chop.runs.devices import pick_device

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)

PRECISIONS = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed"}  # short names, and those of Fabric

KNOWN_TO_FABRIC = ("cpu", "cuda", "mps")
"""The kinds of devices that Fabric distributes a training over; it uses one of any other kind."""
_BF16_STEP = "import torch; torch.nn.Linear(64, 64).bfloat16()(torch.randn(64, 64).bfloat16()).sum().backward()"


@dataclass(frozen=True)
class OneDevice:
    """A device for models in float32: all that evaluation needs of a Fabric, without importing Lightning."""

    device: torch.device

    def setup(self, model: nn.Module) -> nn.Module:
        """Return the model, moved to the device."""
        return model.to(self.device)


def evaluation_device(config: ActionConfig) -> Fabric | OneDevice:
    """Return the device on which the options of `config` evaluate a model, in one process."""
    if PRECISIONS.get(config.trainer_precision, config.trainer_precision) == "32-true":
        return OneDevice(pick_device(config.accelerator))
    return make_fabric(config, single=True)


def make_fabric(config: ActionConfig, single: bool = False) -> Fabric:
    """Return a Fabric for the options of `config`, or for a `single` process; `launch()` starts the others."""
    if config.strategy == "fsdp":
        raise ValueError("strategy 'fsdp' is not supported: sharded models cannot be saved yet; use 'ddp'")
    device = pick_device(config.accelerator)
    precision = PRECISIONS.get(config.trainer_precision, config.trainer_precision)
    if device.type == "cpu" and precision in ("16-mixed", "16-true"):
        raise ValueError(f"trainer_precision '{config.trainer_precision}' needs a GPU; on the CPU, use bf16-mixed")
    if device.type == "cpu" and "bf16" in precision and not has_bf16():
        raise ValueError(
            f"trainer_precision '{config.trainer_precision}' fails on this CPU, which announces AMX instructions "
            "that it cannot run; use 32, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"
        )
    from lightning_fabric import Fabric  # here, because importing it takes as long as importing torch

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it logs each process that it starts
    if device.type not in KNOWN_TO_FABRIC:
        if config.num_devices * config.nodes > 1 and not single:
            raise ValueError(
                f"training on several devices needs one of {', '.join(KNOWN_TO_FABRIC)}, got '{device}'"
            )
        return _fabric_of_one_device(device, precision)
    has_one = single or config.num_devices * config.nodes == 1
    return Fabric(
        accelerator=device.type,
        strategy="auto" if single else config.strategy,
        devices=[device.index] if has_one and device.index else 1 if single else config.num_devices,
        num_nodes=1 if single else config.nodes,
        precision=precision,  # type: ignore[arg-type]  # a name that Fabric accepts
    )


def _fabric_of_one_device(device: torch.device, precision: str) -> Fabric:
    """Return a Fabric on a kind of device that Lightning has no accelerator for."""
    from lightning_fabric import Fabric
    from lightning_fabric.accelerators.accelerator import Accelerator
    from lightning_fabric.strategies.single_device import SingleDeviceStrategy

    class OfTorch(Accelerator):
        """Any accelerator of torch."""

        def setup_device(self, device: torch.device) -> None:
            torch.accelerator.set_device_index(device)

        def teardown(self) -> None: ...

        @staticmethod
        def parse_devices(devices: object) -> object:
            return devices

        @staticmethod
        def get_parallel_devices(devices: object) -> list[torch.device]:
            return [device]

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return torch.accelerator.is_available()

        @staticmethod
        def name() -> str:
            return device.type

    strategy = SingleDeviceStrategy(device=device, accelerator=OfTorch())
    return Fabric(strategy=strategy, precision=precision)  # type: ignore[arg-type]


@functools.cache
def has_bf16() -> bool:
    """Return whether the CPU can run bfloat16: some virtual machines announce AMX and kill what uses it.

    Only another process can find that out; it takes as long as importing torch. Only CPUs with AMX need it.
    """
    if not torch.cpu._is_amx_tile_supported():
        return True
    return subprocess.run([sys.executable, "-c", _BF16_STEP], capture_output=True).returncode == 0


def is_main_process() -> bool:
    """Return False in the additional processes that Fabric, torchrun or SLURM start, which print nothing."""
    ranks = (os.environ.get(name, "0") for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))
    return all(rank == "0" for rank in ranks)
