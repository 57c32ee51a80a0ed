"""Several processes on one machine, each on a device of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import chop
from chop.config import SweepConfig
from chop.ir.graph.device import device_of
from chop.runs.devices import WORKER, pick_device
from chop.training.parallel import map_in_processes
from device.other import NAME

QUANTIZE = {"quantize": {"by": "type", "linear": {"config": {"name": "mxfp"}}}, "calibrate": {}, "gptq": {}}
PLUGIN = "from device import other\n\nother.install()\n"


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        ({}, 0),
        ({"LOCAL_RANK": "1"}, 1),
        ({"LOCAL_RANK": "2"}, 0),  # there are two devices
        ({"SLURM_LOCALID": "3"}, 1),
        ({WORKER: "1"}, 1),
        ({WORKER: "2"}, 0),
        ({"SLURM_LOCALID": "1", WORKER: "1"}, 0),
    ],
)
def test_a_process_has_the_device_of_its_number(
    environment: dict[str, str], index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCAL_RANK", "SLURM_LOCALID", WORKER):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(pick_device(NAME)) == str(pick_device("auto")) == f"{NAME}:{index}"


def test_the_second_worker_measures_on_the_second_device_what_the_first_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for worker in ("0", "1"):
        monkeypatch.setenv(WORKER, worker)
        run = chop.transform("toy", "toy_tiny", passes=QUANTIZE, accelerator=NAME, project_dir=tmp_path / worker)
        assert str(device_of(run.graph.model)) == f"{NAME}:{worker}"
        results.append(run.summary["test"])
    assert results[0] == results[1]


def load(config: SweepConfig) -> Callable[[Path], str]:
    return device_of_worker


def device_of_worker(folder: Path) -> str:
    """Return the device of this process after another one has come here too."""
    device = pick_device(NAME)
    (folder / str(device.index)).touch()
    end = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    return str(device)


def test_workers_of_sweeps_and_grids_are_divided_among_the_devices(tmp_path: Path) -> None:
    plugin, meeting = tmp_path / "plugin.py", tmp_path / "meeting"
    plugin.write_text(PLUGIN)
    meeting.mkdir()
    config = SweepConfig(model="toy", dataset="toy_tiny", plugins=(plugin,))
    found = map_in_processes(load, config, [meeting, meeting], 2)
    assert sorted(found) == [f"{NAME}:0", f"{NAME}:1"]
