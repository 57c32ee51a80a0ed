"""Devices, precisions and strategies, available and unavailable."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch

from chop.config import TrainConfig
from chop.runs.devices import pick_device
from chop.training import devices
from chop.training.devices import is_main_process, make_fabric

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a gpu")


@no_gpu
@pytest.mark.parametrize("name", ["gpu", "mps"])
def test_an_unavailable_device_is_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="chop"):
        assert pick_device(name) == torch.device("cpu")
    assert f"accelerator '{name}' is not available on this machine: running on the CPU" in caplog.text


def test_auto_and_cpu_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto") == (torch.accelerator.current_accelerator() or torch.device("cpu"))
    assert caplog.text == ""


def test_an_unknown_accelerator_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="unknown accelerator 'gup'; did you mean 'gpu'"):
        pick_device("gup")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategy": "fsdp"}, "strategy 'fsdp' is not supported"),
        ({"trainer_precision": "16-mixed"}, "trainer_precision '16-mixed' needs a GPU"),
    ],
)
def test_unsupported_options_are_reported(train_config: TrainConfig, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_fabric(replace(train_config, **change))


@pytest.mark.parametrize(("name", "expected"), [("32", "32-true"), ("bf16", "bf16-mixed"), ("64", "64-true")])
def test_short_names_of_precisions(
    train_config: TrainConfig, name: Any, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "has_bf16", lambda: True)
    fabric = make_fabric(replace(train_config, trainer_precision=name))
    assert fabric._precision.precision == expected


@pytest.mark.parametrize("name", ["bf16", "bf16-mixed", "bf16-true"])
@pytest.mark.parametrize("step", ["import os, signal; os.kill(os.getpid(), signal.SIGILL)", "pass"])
def test_a_cpu_that_cannot_run_its_bf16_instructions_is_an_error(
    train_config: TrainConfig, name: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_BF16_STEP", step)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setattr(devices, "has_bf16", devices.has_bf16.__wrapped__)
    config = replace(train_config, trainer_precision=name, accelerator="cpu")
    if step == "pass":
        make_fabric(config)
        return
    with pytest.raises(ValueError, match=f"trainer_precision '{name}' fails on this CPU, which announces AMX"):
        make_fabric(config)


def test_only_the_first_process_is_the_main_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_main_process()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert not is_main_process()
