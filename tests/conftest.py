"""Fixtures of all tests. Every test can import `samples`, which is in this folder."""

import gc
import logging
import os
import re
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


QUICK = "not slow"
"""The expression that `make check` gives to `-m`."""
MAX_QUICK_SECONDS = 1.0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files whose tests are all left out of `make check`."""
    if config.option.markexpr != QUICK or not collection_path.name.startswith("test_"):
        return None
    return re.search(r"^pytestmark = .*mark\.slow", collection_path.read_text(), re.MULTILINE) is not None or None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After `make check`, list the tests that take too long for it."""
    if config.option.markexpr != QUICK:
        return
    long = [each for each in terminalreporter.getreports("passed") if each.duration > MAX_QUICK_SECONDS]
    if long:
        terminalreporter.write_line(f"more than {MAX_QUICK_SECONDS:g} s, so make it faster or mark it as slow:")
    for report in sorted(long, key=lambda report: -report.duration):
        terminalreporter.write_line(f"  {report.duration:.1f} s {report.nodeid}")


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Import every file of tests from the same random state: some build models and tensors as parameters."""
    if isinstance(collector, pytest.Module):
        torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def _fast_garbage_collection() -> None:
    """Leave what stays in memory, such as all collected tests, out of later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", params=["eager", pytest.param("compiled", marks=pytest.mark.slow)])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run tests of formats twice: with the eager definitions, and with compiled loops for tensors of every size."""
    if request.param == "compiled" and not is_available():
        pytest.skip("compiled loops need the package numba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.settings, "enabled", request.param == "compiled")
        patch.setattr(run.settings, "min_numel_to_load", 0)
        yield


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


@pytest.fixture(autouse=True, scope="session")
def _no_network_and_no_cache(session_cache: Path) -> Iterator[None]:
    """Generate data sets instead of downloading them, and do not write to the user's cache and state folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHOP_OFFLINE", "1")
        patch.setenv("CHOP_CACHE", str(session_cache))
        patch.setenv("XDG_STATE_HOME", str(session_cache))
        yield


@pytest.fixture(autouse=True)
def _same_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start every test from the same random state, with an empty state folder and the same log.

    One fixture, because thousands of tests pay for it.
    """
    torch.default_generator.manual_seed(0)  # `torch.manual_seed` keeps a stack trace for each kind of GPU
    # `mktemp` would list all earlier folders.
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.getbasetemp() / "state" / uuid.uuid4().hex)
    logger = logging.getLogger("chop")
    level, handlers = logger.level, logger.handlers
    logger.handlers = list(handlers)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    yield
    logger.level, logger.handlers = level, handlers


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
