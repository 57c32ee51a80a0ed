"""Fixtures of all tests. Every test can import `samples`, which is in this folder."""

import gc
import logging
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # read by torch; more threads than cores wait for one another

import pytest
import torch
from hypothesis import settings

from chop.config import TrainConfig
from chop.formats.kernels import run
from chop.formats.kernels.compiler import is_available
from command_server import CommandServer, started

# Without bytecode files, each process that a test starts compiles the package again, which takes 2 s.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts the tests in the background makes them, and the processes that they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("full", max_examples=120, deadline=None, derandomize=True)
settings.register_profile("quick", max_examples=15, deadline=None, derandomize=True)
settings.load_profile("full")


NET = '''
from torch import nn


class Dropout(nn.Sequential):
    """Uses random numbers in training: resuming must restore the random state."""

    def __init__(self, info):
        layers = nn.Linear(info.num_features, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, info.num_classes)
        super().__init__(*layers)

    def forward(self, x):
        return super().forward(x)
'''


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Import every file of tests from the same random state: some build models and tensors as parameters."""
    if isinstance(collector, pytest.Module):
        torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def _fast_garbage_collection() -> None:
    """Leave what stays in memory, such as all collected tests, out of later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_random_state() -> None:
    """Start every test from the same random state."""
    torch.manual_seed(0)


@pytest.fixture(scope="module", params=["eager", "compiled"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run tests of formats twice: with the eager definitions, and with compiled loops for tensors of every size."""
    if request.param == "compiled" and not is_available():
        pytest.skip("compiled loops need the package numba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.settings, "enabled", request.param == "compiled")
        patch.setattr(run.settings, "min_numel_to_load", 0)
        yield


@pytest.fixture(autouse=True)
def _same_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the log level and handlers after a test that changes them."""
    logger = logging.getLogger("chop")
    monkeypatch.setattr(logger, "level", logger.level)
    monkeypatch.setattr(logger, "handlers", list(logger.handlers))
    logger.manager._clear_cache()  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The cache folder of all workers.

    Compiled loops stay in `.pytest_cache`: the name of their file depends on source, Numba and the processor.
    """
    folder = tmp_path_factory.getbasetemp()
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "cache"
    shared.mkdir(exist_ok=True)
    if pytestconfig.pluginmanager.has_plugin("cacheprovider"):
        with suppress(FileExistsError):  # another worker was first
            (shared / "kernels").symlink_to(pytestconfig.cache.mkdir("kernels"))
    return shared


@pytest.fixture(autouse=True)
def _no_network_and_no_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, session_cache: Path
) -> None:
    """Generate data sets instead of downloading them, and do not write to the user's cache and state folders."""
    folder = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("CHOP_OFFLINE", "1")
    monkeypatch.setenv("CHOP_CACHE", str(session_cache))
    # `mktemp` would list all earlier folders in each of the 13,000 tests.
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state" / uuid.uuid4().hex))


@pytest.fixture(scope="session")
def command_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    with started(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def train_config(tmp_path: Path) -> TrainConfig:
    """Two epochs of twelve steps, about 20 ms."""
    return TrainConfig(
        model="toy",
        dataset="toy_tiny",
        batch_size=64,
        max_epochs=2,
        learning_rate=0.01,
        accelerator="cpu",
        project_dir=tmp_path / "out",
    )


@pytest.fixture
def dropout_net(tmp_path: Path) -> str:
    """A model with dropout in a file of the user, as `file.py:Name`."""
    file = tmp_path / "net.py"
    file.write_text(NET)
    return f"{file}:Dropout"
